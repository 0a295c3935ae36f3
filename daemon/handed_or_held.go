package daemon

import (
	"cmp"
	"context"
	"sync"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// onNotify hands a notification to all who want it, or holds it.
func (d *Daemon) onNotify(ctx context.Context, sender identity.Peer, message kinds.Checked) (inbox.Outcome, bool) {
	env := message.Envelope
	if err := d.permissions.check(sender, env.Kind, ""); err != nil {
		return refused(err)
	}
	return d.handOrHold(ctx, env, env.Agent, d.agents.FindTakers(env.Kind, message.Topic, env.Agent), &client.Inbound{Envelope: *env, Name: sender.Name})
}

// handOrHold gives a message to the takers; if none confirms it, it goes to the inbox, for
// the agent that it names or follows from, "" for any. The sender's connection may end meanwhile: the message has arrived all the same.
func (d *Daemon) handOrHold(ctx context.Context, env *wire.Envelope, agent string, takers []*registry.Agent, in *client.Inbound) (inbox.Outcome, bool) {
	ctx = context.WithoutCancel(ctx)
	if held, err := d.inbox.Holds(ctx, env); err != nil {
		return refused(err)
	} else if held {
		return inbox.Outcome{State: wire.Held}, true
	}
	if d.isConfirmed(ctx, takers, in) {
		return inbox.Outcome{State: wire.Handed}, true
	}
	if err := d.inbox.Hold(ctx, env, agent); err != nil {
		return refused(err)
	}
	// While the agents had their time, an untrust may have emptied the inbox.
	if _, ok := d.trust.Get(env.From); !ok {
		return refused(cmp.Or(d.inbox.RemovePeer(ctx, env.From), error(newUntrusted(env))))
	}
	return inbox.Outcome{State: wire.Held}, true
}

// isConfirmed reports whether an agent has confirmed the message in time.
func (d *Daemon) isConfirmed(ctx context.Context, takers []*registry.Agent, in *client.Inbound) bool {
	if len(takers) == 0 {
		return false
	}
	tell := func(a *registry.Agent) error {
		err := callAgent(ctx, confirmTime, a, in, nil)
		if err != nil {
			d.log.Debug("not confirmed", "agent", a.Name, "kind", in.Kind, "id", in.ID, "err", err)
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
	for range takers {
		if <-said != nil {
			continue
		}
		size := int64(len(in.Payload))
		if d.slowTakers.Take(in.From, size) != nil {
			others.Wait()
			return true
		}
		d.calls.Go(func() { others.Wait(); d.slowTakers.Give(in.From, size) })
		return true
	}
	return false
}
