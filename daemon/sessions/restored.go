package sessions

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/waking"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// WakeRestored lets messages in the inbox wake a session that is attached now, as after a restart of this
// daemon: those about which the owner is to be asked, and, if the session has come back, up to MaxRestored of
// those that may wake it and have not done so. The peers take turns. WakeRestored ends when the session is no
// longer attached, or is attached anew.
func (s *Service) WakeRestored(ctx context.Context, a *registry.Agent, hasComeBack bool) {
	s.restoring.Lock()
	defer s.restoring.Unlock()
	if s.Agents.FindByName(a.Name) != a {
		return
	}
	wanted := s.listWakingKinds(a.Name)
	keys, err := s.Inbox.ListKeys(ctx, a.Name, wanted, maxScanned)
	var forAny []inbox.MessageKey
	if err == nil {
		forAny, err = s.Inbox.ListKeys(ctx, "", wanted, maxScanned)
	}
	if err != nil {
		s.Log.Warn("a session is not woken for what was held", "agent", a.Name, "err", err)
	}
	may := 0
	s.wakeForHeld(ctx, a, keys, func(m waking.Message, _ *wire.Envelope) bool {
		if s.Waker.AsksOwner(m) {
			return true
		}
		if !hasComeBack || may == MaxRestored || !s.Waker.IsAllowedByRules(m) {
			return false
		}
		may++
		return true
	})
	s.wakeForHeld(ctx, a, forAny, func(m waking.Message, env *wire.Envelope) bool {
		what, err := kinds.ParsePayload[kinds.Notify](env.Payload)
		return err == nil && m.Kind == kinds.KindNotify && s.Waker.AsksOwner(m) && s.ChooseTold("", s.Agents.FindTakers(m.Kind, what.Topic, ""), m.Peer, m.Kind) == a
	})
}

// wakeForHeld lets those messages of keys wake a session that have not woken it, about which the owner
// is not asked already, and for which isWanted returns true.
func (s *Service) wakeForHeld(ctx context.Context, a *registry.Agent, keys []inbox.MessageKey, isWanted func(waking.Message, *wire.Envelope) bool) {
	for _, k := range keys {
		if s.Agents.FindByName(a.Name) != a {
			return
		}
		if s.Waker.HasWoken(waking.Message{Agent: a.Name, Peer: identity.Peer{ID: k.Peer}, ID: k.ID}) || s.Waker.IsAsked(k.Peer, k.ID) {
			continue
		}
		env, err := s.Inbox.ReadMessage(ctx, k)
		sender, ok := s.Trust.FindPeer(k.Peer)
		if err != nil || env == nil || !ok || kinds.IsPartial(env.Kind, env.Payload) {
			continue
		}
		if m := s.newWakeMessage(a.Name, sender, env); isWanted(m, env) {
			s.Waker.Enqueue(m, func(ctx context.Context, grant client.WakeGrant) waking.Outcome { return s.wakeLater(ctx, m, k, grant) }, nil)
		}
	}
}

// listWakingKinds returns the kinds of message in an inbox by which each peer may wake a session, by
// the rules.
func (s *Service) listWakingKinds(agent string) map[identity.ID][]string {
	all := make(map[identity.ID][]string)
	for _, p := range s.Trust.Peers() {
		for _, k := range kinds.ListKinds() {
			m := waking.Message{Agent: agent, Peer: p, Kind: k.Name}
			if k.Has(kinds.Report) {
				m.Delegation = wire.NewMessageID() // it may be about one
			}
			if k.Class == kinds.Message && k.Has(kinds.Wakes) && s.Waker.IsAllowedByRules(m) {
				all[p.ID] = append(all[p.ID], k.Name)
			}
		}
	}
	return all
}

// MaxRestored bounds the messages that wake a session which has come back, as many as may wait.
const MaxRestored = 16

// maxScanned bounds how many messages of one peer are read to find those that wait again. It has room
// for the messages that may wait, and for those that can have woken the session in the last day.
const maxScanned = MaxRestored/2 + 100
