package daemon

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

// wakeRestored lets messages that lie in the inbox wake a session that is attached now, as after a
// restart of this daemon: those about which the owner is to be asked, and, if the session has come back,
// maxRestored of those that may and have not. The peers take turns. It ends when the session is attached
// no more, or anew.
func (d *Daemon) wakeRestored(ctx context.Context, a *registry.Agent, hasComeBack bool) {
	d.restoring.Lock()
	defer d.restoring.Unlock()
	if d.agents.FindByName(a.Name) != a {
		return
	}
	wanted := d.listWakingKinds(a.Name)
	keys, err := d.inbox.ListKeys(ctx, a.Name, wanted, maxScanned)
	var forAny []inbox.MessageKey
	if err == nil {
		forAny, err = d.inbox.ListKeys(ctx, "", wanted, maxScanned)
	}
	if err != nil {
		d.log.Warn("a session is not woken for what was held", "agent", a.Name, "err", err)
	}
	may := 0
	d.wakeForHeld(ctx, a, keys, func(m waking.Message, _ *wire.Envelope) bool {
		if d.waker.AsksOwner(m) {
			return true
		}
		if !hasComeBack || may == maxRestored || !d.waker.IsAllowedByRules(m) {
			return false
		}
		may++
		return true
	})
	d.wakeForHeld(ctx, a, forAny, func(m waking.Message, env *wire.Envelope) bool {
		what, err := kinds.ParsePayload[kinds.Notify](env.Payload)
		return err == nil && m.Kind == kinds.KindNotify && d.waker.AsksOwner(m) && d.chooseTold("", d.agents.FindTakers(m.Kind, what.Topic, ""), m.Peer, m.Kind) == a
	})
}

// wakeForHeld lets those messages of keys wake a session that have not woken it, about which the owner
// is not asked already, and of which isWanted says that they are to.
func (d *Daemon) wakeForHeld(ctx context.Context, a *registry.Agent, keys []inbox.MessageKey, isWanted func(waking.Message, *wire.Envelope) bool) {
	for _, k := range keys {
		if d.agents.FindByName(a.Name) != a {
			return
		}
		if d.waker.HasWoken(waking.Message{Agent: a.Name, Peer: identity.Peer{ID: k.Peer}, ID: k.ID}) || d.waker.IsAsked(k.Peer, k.ID) {
			continue
		}
		env, err := d.inbox.ReadMessage(ctx, k)
		sender, ok := d.trust.FindPeer(k.Peer)
		if err != nil || env == nil || !ok || isPartial(env) {
			continue
		}
		if m := d.newWakeMessage(a.Name, sender, env); isWanted(m, env) {
			d.waker.Enqueue(m, func(ctx context.Context, grant client.WakeGrant) waking.Outcome { return d.wakeLater(ctx, m, k, grant) }, nil)
		}
	}
}

// listWakingKinds returns the kinds of message in an inbox by which each peer may wake a session, by
// the rules.
func (d *Daemon) listWakingKinds(agent string) map[identity.ID][]string {
	all := make(map[identity.ID][]string)
	for _, p := range d.trust.Peers() {
		for _, k := range kinds.ListKinds() {
			m := waking.Message{Agent: agent, Peer: p, Kind: k.Name}
			if k.Has(kinds.Report) {
				m.Delegation = wire.NewMessageID() // it may be about one
			}
			if k.Class == kinds.Message && k.Has(kinds.Wakes) && d.waker.IsAllowedByRules(m) {
				all[p.ID] = append(all[p.ID], k.Name)
			}
		}
	}
	return all
}

// maxRestored bounds the messages that wake a session which has come back, as many as may wait.
const maxRestored = 16

// maxScanned bounds how many messages of one peer are read to find those that wait again. It has room
// for the messages that may wait, and for those that can have woken the session in the last day.
const maxScanned = maxRestored/2 + 100
