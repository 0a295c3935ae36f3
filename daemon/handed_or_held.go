package daemon

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

// handleNotify hands a notification to all agents that want it, or holds it.
func (d *Daemon) handleNotify(ctx context.Context, sender identity.Peer, message kinds.Checked) (inbox.Outcome, bool) {
	env := message.Envelope
	if err := d.permissions.CheckAllowed(sender, env.Kind, ""); err != nil {
		return newRefusedOutcome(err)
	}
	if err := d.drain.CheckTakesWork(); err != nil {
		return newRefusedOutcome(err)
	}
	return d.handToAgentOrStore(ctx, sender, env, env.Agent, d.agents.FindTakers(env.Kind, message.Topic, env.Agent), &client.Inbound{Envelope: *env, Name: sender.Name})
}

// handToAgentOrStore offers a message to the takers. If none of them confirms it, it goes to the
// inbox, for the named agent, "" for any. A session among the takers is told of it when it lies
// there, and may take it out again. The sender's connection may end meanwhile: the message has
// arrived all the same.
func (d *Daemon) handToAgentOrStore(ctx context.Context, sender identity.Peer, env *wire.Envelope, agent string, takers []*registry.Agent, in *client.Inbound) (inbox.Outcome, bool) {
	ctx = context.WithoutCancel(ctx)
	if held, err := d.inbox.Contains(ctx, env); err != nil {
		return newRefusedOutcome(err)
	} else if held {
		return inbox.Outcome{State: wire.Held}, true
	}
	if d.offerToAgents(ctx, withoutSessions(takers), in) {
		return inbox.Outcome{State: wire.Handed}, true
	}
	if err := d.inbox.AddMessage(ctx, env, agent); err != nil {
		return newRefusedOutcome(err)
	}
	// While the agents had their time, an untrust may have emptied the inbox.
	if _, ok := d.trust.FindPeer(env.From); !ok {
		return newRefusedOutcome(cmp.Or(d.inbox.DeletePeerMessages(ctx, env.From), error(peer.NewUntrustedError(env))))
	}
	if a := d.sessions.ChooseTold(agent, takers, sender, env.Kind); a != nil && d.sessions.Tell(ctx, a, sender, in) {
		return inbox.Outcome{State: wire.Handed}, true
	}
	return inbox.Outcome{State: wire.Held}, true
}

// withoutSessions returns the agents that answer by themselves.
func withoutSessions(takers []*registry.Agent) []*registry.Agent {
	if !slices.ContainsFunc(takers, (*registry.Agent).IsSession) {
		return takers
	}
	return slices.DeleteFunc(slices.Clone(takers), (*registry.Agent).IsSession)
}

// offerToAgents sends a message to all takers and reports whether one of them has confirmed
// it within registry.ConfirmTime.
func (d *Daemon) offerToAgents(ctx context.Context, takers []*registry.Agent, in *client.Inbound) bool {
	if len(takers) == 0 {
		return false
	}
	tell := func(a *registry.Agent) error {
		d.repeats.AddTaker(in.From, in.ID, a.KeyHash)
		err := callAgent(ctx, registry.ConfirmTime, a, in, nil)
		if err != nil {
			d.log.Debug("not confirmed", "agent", a.Name, "kind", in.Kind, "id", in.ID, "code", kinds.AsError(err).Code)
		}
		return err
	}
	if len(takers) == 1 {
		return tell(takers[0]) == nil
	}
	// The first word counts; the others have their time all the same. Until then they
	// keep the message in memory, which is its sender's to pay for.
	said := make(chan error, len(takers))
	var others sync.WaitGroup
	others.Add(len(takers))
	for _, a := range takers {
		d.calls.Go(func() { defer others.Done(); said <- tell(a) })
	}
	for slower := len(takers) - 1; slower >= 0; slower-- {
		if <-said != nil {
			continue
		}
		size := slowMessageBytes(in, slower)
		if d.slowTakers.Reserve(in.From, size) != nil {
			others.Wait()
			return true
		}
		d.calls.Go(func() { others.Wait(); d.slowTakers.Release(in.From, size) })
		return true
	}
	return false
}

// slowMessageBytes returns what the daemon keeps in memory of a message for which some slower agents
// have time: its payload, what it keeps for each of them, and as much again for the message itself.
func slowMessageBytes(in *client.Inbound, slower int) int64 {
	return int64(len(in.Payload)) + int64(slower+1)*slowTakerBytes
}

// slowTakerBytes is what the daemon keeps in memory while it waits for one agent: the stack of a
// goroutine, 4 to 8 KiB, and a call with its timer, 1 KiB. The goroutine that waits for all of them,
// and what is kept around the payload, take no more.
const slowTakerBytes = 8 << 10
