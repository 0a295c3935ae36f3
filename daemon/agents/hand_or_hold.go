package agents

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// HandOrHold offers a message to the takers. If none of them confirms it, it is stored in the inbox for the
// named agent, or for any agent if agent is "". Then a session among the takers is notified, and may take it out
// again. The message has arrived even if the sender's connection ends meanwhile. origin is client.OriginDaemon if this
// daemon has made the message.
func (s *Service) HandOrHold(ctx context.Context, sender identity.Peer, env *wire.Envelope, agent, origin string, takers []*registry.Agent, in *client.Inbound) (inbox.Outcome, bool) {
	ctx = context.WithoutCancel(ctx)
	if held, err := s.Inbox.Contains(ctx, env); err != nil {
		return inbox.Refuse(err)
	} else if held {
		return inbox.Outcome{State: wire.Held}, true
	}
	offered := WithoutSessions(takers)
	if s.Offer(ctx, offered, in) {
		return inbox.Outcome{State: wire.Handed}, true
	}
	switch err := s.Inbox.AddMessage(ctx, env, agent, origin); {
	case err != nil && len(offered) > 0: // one of them may have it
		return inbox.Outcome{Err: err}, false
	case err != nil:
		return inbox.Refuse(err)
	}
	// While the agents had their time, an untrust may have emptied the inbox.
	if _, ok := s.Trust.FindPeer(env.From); !ok && env.From != s.Self {
		return inbox.Refuse(cmp.Or(s.Inbox.DeletePeerMessages(ctx, env.From), error(peer.NewUntrustedError(env))))
	}
	if a := s.Sessions.ChooseTold(agent, takers, sender, env.Kind); a != nil && s.Sessions.Tell(ctx, a, sender, in) {
		return inbox.Outcome{State: wire.Handed}, true
	}
	return inbox.Outcome{State: wire.Held}, true
}

// WithoutSessions returns the agents that answer by themselves.
func WithoutSessions(takers []*registry.Agent) []*registry.Agent {
	if !slices.ContainsFunc(takers, (*registry.Agent).IsSession) {
		return takers
	}
	return slices.DeleteFunc(slices.Clone(takers), (*registry.Agent).IsSession)
}

// Offer sends a message to all takers and reports whether one of them has confirmed
// it within registry.ConfirmTime.
func (s *Service) Offer(ctx context.Context, takers []*registry.Agent, in *client.Inbound) bool {
	if len(takers) == 0 {
		return false
	}
	tell := func(a *registry.Agent) error {
		s.Repeats.AddTaker(in.From, in.ID, a.KeyHash)
		err := Call(ctx, registry.ConfirmTime, a, in, nil)
		if err != nil {
			s.Log.Debug("not confirmed", "agent", a.Name, "kind", in.Kind, "id", in.ID, "code", kinds.AsError(err).Code)
		}
		return err
	}
	if len(takers) == 1 {
		return tell(takers[0]) == nil
	}
	// The first confirmation decides. The other agents still have their full time. Until then the daemon keeps the
	// message in memory for them, and charges that to its sender.
	said := make(chan error, len(takers))
	var others sync.WaitGroup
	others.Add(len(takers))
	for _, a := range takers {
		s.Calls.Go(func() { defer others.Done(); said <- tell(a) })
	}
	for slower := len(takers) - 1; slower >= 0; slower-- {
		if <-said != nil {
			continue
		}
		size := slowMessageBytes(in, slower)
		if s.SlowTakers.Reserve(in.From, size) != nil {
			others.Wait()
			return true
		}
		s.Calls.Go(func() { others.Wait(); s.SlowTakers.Release(in.From, size) })
		return true
	}
	return false
}

// slowMessageBytes returns what the daemon keeps in memory of a message for which some slower agents
// have time: its payload, what it keeps for each of them, and as much again for the message itself.
func slowMessageBytes(in *client.Inbound, slower int) int64 {
	return int64(len(in.Payload)) + int64(slower+1)*SlowTakerBytes
}

// SlowTakerBytes is what the daemon keeps in memory while it waits for one agent: the stack of a
// goroutine, 4 to 8 KiB, and a call with its timer, 1 KiB. The goroutine that waits for all of them,
// and what is kept around the payload, take no more.
const SlowTakerBytes = 8 << 10
