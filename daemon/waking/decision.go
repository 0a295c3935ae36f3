package waking

import (
	"time"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
)

// decision is what the rules say of a message.
type decision struct{ allowed, ask, unattended bool }

// decideByRules returns what the rules and the settings say of a message. It takes no lock.
func (w *Waker) decideByRules(m Message) (d decision) {
	p, ok := w.findPermission(m.Agent, m.Peer, m.Kind)
	if ok && !p.Ask {
		d = decision{allowed: true, unattended: p.Unattended}
	}
	if !m.Answer.IsZero() {
		if unattended, on := w.findAnswers(m.Agent); on {
			d.allowed, d.unattended = true, d.unattended || unattended
		}
	}
	if !d.allowed && ok {
		d = decision{ask: true, unattended: p.Unattended}
	}
	return d
}

// findPermission returns the permission that counts: that of the rules, else that of the
// settings.
func (w *Waker) findPermission(agent string, peer identity.Peer, kind string) (Permission, bool) {
	if p, ok := w.Rules.findPermission(agent, peer.ID, kind); ok {
		return p, true
	}
	set, ok := w.Agents().FindWake(agent, peer.ID, peer.Name, kind)
	return Permission{Peer: peer.ID, Agent: agent, Kind: kind, Ask: set.Ask, Unattended: set.Unattended}, ok
}

// findAnswers reports whether answers to what a session asked wake it.
func (w *Waker) findAnswers(agent string) (unattended, on bool) {
	if rule, ok := w.Rules.findAnswers(agent); ok {
		return rule.Unattended, true
	}
	set := w.Agents().Named[agent].Answers
	return set == config.AnswersUnattended, set == config.AnswersOn || set == config.AnswersUnattended
}

// listWakers returns the peers that may wake an agent, "" for any agent.
func (w *Waker) listWakers(agent string) map[identity.ID]bool {
	all := w.Rules.listPeers(agent)
	for _, id := range w.Wakers(agent) {
		all[id] = true
	}
	return all
}

// IsAllowed reports whether the rules let a message wake its session, by themselves or after an
// approval. It says nothing of the bounds.
func (w *Waker) IsAllowed(m Message) bool {
	d := w.decideByRules(m)
	return d.allowed || d.ask
}

// MayWake reports whether a message of a peer may wake a session now.
func (w *Waker) MayWake(agent string, peer identity.Peer, kind string) bool {
	m := Message{Agent: agent, Peer: peer, Kind: kind}
	now := time.Now()
	if !w.decideByRules(m).allowed || !w.Rules.MutedUntil(agent, now).IsZero() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sessions[agent]
	return s != nil && w.checkWaiting(s, m) == nil && w.checkTurn(&turn{agent: agent, cause: peer.ID, at: now}) == nil
}
