package waking

import (
	"time"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
)

// decision is the result of the rules for a message.
type decision struct{ allowed, ask, unattended bool }

// decideByRules applies the rules and the settings to a message. It takes no lock.
func (w *Waker) decideByRules(m Message) (d decision) {
	p, ok := w.findPermission(m.Agent, m.Peer, m.Kind)
	if ok && !p.Ask {
		d = decision{allowed: true, unattended: p.Unattended}
	}
	if !m.Delegation.IsZero() {
		if unattended, on := w.FindAnswers(m.Agent); on {
			d.allowed, d.unattended = true, d.unattended || unattended
		}
	}
	if !d.allowed && ok {
		d = decision{ask: true, unattended: p.Unattended}
	}
	return d
}

// findPermission returns the permission that applies: that of the session in the rules, or else in
// the settings, or else that of every session in the rules.
func (w *Waker) findPermission(agent string, peer identity.Peer, kind string) (Permission, bool) {
	if p, ok := w.Rules.findPermission(agent, peer.ID, kind); ok {
		return p, true
	}
	if set, ok := w.Agents().FindWake(agent, peer.ID, peer.Name, kind); ok {
		return Permission{Peer: peer.ID, Agent: agent, Kind: kind, Ask: set.Ask, Unattended: set.Unattended}, true
	}
	return w.Rules.findPermission("", peer.ID, kind)
}

// FindAnswers reports whether answers to a session's requests wake it. The rules about answers have the
// same precedence as permissions.
func (w *Waker) FindAnswers(agent string) (unattended, on bool) {
	rule, on := w.Rules.findAnswers(agent)
	if set := w.Agents().Named[agent].Answers; !on && set != "" {
		return set == config.AnswersUnattended, set != config.AnswersOff
	}
	if !on {
		rule, on = w.Rules.findAnswers("")
	}
	return rule.Unattended, on
}

// ListWakers returns the peers that may wake an agent; agent "" means any agent.
func (w *Waker) ListWakers(agent string) map[identity.ID]bool {
	all := w.Rules.listPeers(agent)
	for _, id := range w.Wakers(agent) {
		all[id] = true
	}
	return all
}

// MayAnyWake reports whether the rules let anything at all wake a session.
func (w *Waker) MayAnyWake(agent string) bool {
	_, answers := w.FindAnswers(agent)
	return answers || len(w.ListWakers(agent)) > 0
}

// IsAllowedByRules reports whether the rules let a message wake its session, by themselves or after an
// approval. It ignores the bounds.
func (w *Waker) IsAllowedByRules(m Message) bool {
	d := w.decideByRules(m)
	return d.allowed || d.ask
}

// HasWoken reports whether a message has begun a turn in the last day.
func (w *Waker) HasWoken(m Message) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.findCharge(m.key(), false) != nil
}

// Standing is whether a message of a peer may wake a session now.
type Standing int

// The standings.
const (
	Forbidden Standing = iota // no rule allows it
	KeptBack                  // the session is muted, cannot be woken, or has no place for the message
	UsedUp                    // the peer's share of turns is used up
	Asks                      // the owner has to approve it, and can be asked
	Ready                     // it may
)

// FindStanding returns whether a message of a peer may wake a session now.
func (w *Waker) FindStanding(m Message) Standing {
	now := time.Now()
	d := w.decideByRules(m)
	switch {
	case !d.allowed && !d.ask:
		return Forbidden
	case !w.Rules.MutedUntil(m.Agent, now).IsZero():
		return KeptBack
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sessions[m.Agent]
	switch {
	case s == nil, s.unwakeable, s.refusal.excludes(d.unattended, now), w.checkWaiting(s, m) != nil:
		return KeptBack
	case w.checkCharge(&charge{agent: m.Agent, cause: m.Peer.ID, at: now}) != nil:
		return UsedUp
	case d.allowed:
		return Ready
	case w.hasPlaceForApproval(m.Peer.ID, now):
		return Asks
	}
	return KeptBack
}

// MayWake reports whether a message of a peer may wake a session now.
func (w *Waker) MayWake(agent string, peer identity.Peer, kind string) bool {
	return w.FindStanding(Message{Agent: agent, Peer: peer, Kind: kind}) == Ready
}

// AsksOwner reports whether the rules let a message wake its session only after the owner has approved it.
func (w *Waker) AsksOwner(m Message) bool { return w.decideByRules(m).ask }
