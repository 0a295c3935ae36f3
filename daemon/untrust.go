package daemon

import (
	"context"
	"slices"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/peers"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
)

// findLeftovers finds what the last run of the daemon could not remove of blocked peers.
func (d *Daemon) findLeftovers(ctx context.Context) error {
	senders, err := d.inbox.ListSenders(ctx)
	if err != nil {
		return ownwords.Errorf("find what untrust has left: %w", err)
	}
	known, err := d.channels.ListKnownPeers(ctx)
	if err != nil {
		return ownwords.Errorf("find what untrust has left: %w", err)
	}
	ofFiles, err := d.fileService.ListSenders(ctx)
	if err != nil {
		return ownwords.Errorf("find what untrust has left: %w", err)
	}
	all := slices.Concat(senders, known, ofFiles)
	for _, t := range d.delegations.List(nil, func(t *delegation.Delegation, state client.TaskState) bool { return !t.IsOver(state) }) {
		all = append(all, t.Peer)
	}
	for _, id := range all {
		if d.trust.IsBlocked(id) {
			d.peers.AddLeftover(id)
		}
	}
	return nil
}

// forgetPeer forgets what the services keep in memory of a peer that is untrusted.
func (d *Daemon) forgetPeer(id identity.ID) {
	d.budget.ForgetRefusals(id)
	d.repeats.ForgetPeer(id)
	d.watch.Traffic.ForgetPeer(id)
	d.outgoing.Forget(id)
	d.fileService.ForgetPeer(id)
	d.sessions.Waker.ForgetPeer(id)
	d.known.ForgetPeer(id)
	d.agents.ForgetPeer(id)
}

// listRemovals returns what removes from the disk what an untrusted peer has left with the services.
func (d *Daemon) listRemovals() []peers.Removal {
	nameless := func(remove func(context.Context, identity.ID) error) func(context.Context, identity.ID, string) error {
		return func(ctx context.Context, id identity.ID, _ string) error { return remove(ctx, id) }
	}
	return []peers.Removal{
		{Part: client.PartChannels, Remove: nameless(d.channels.ForgetPeer)},
		{Part: client.PartInbox, Remove: nameless(d.inbox.DeletePeerMessages)},
		{Part: client.PartFiles, Remove: nameless(d.fileService.DeletePeer)},
		{Part: client.PartKept, Remove: d.kept.EndWith},
		{Part: client.PartDelegations, Remove: d.tasks.EndWith},
		{Part: client.PartWake, Remove: nameless(d.sessions.Waker.DeletePeer)},
		{Part: client.PartConversations, Remove: nameless(d.spending.CountUntrust)},
	}
}
