package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

const (
	pinsPause    = time.Second     // of a pin for others, before all of them are written
	removalRetry = 2 * time.Second // between attempts to write what the disk did not take
)

// leftovers holds the untrusted peers of which something is left on a disk that did not take
// its removal.
type leftovers struct {
	names sync.Map    // the names that they had, by id
	wake  pace.Signal // set if something is left

	// removing is held while what a peer has left is removed, and while one is trusted
	// again: so nothing goes that came under the new trust.
	removing sync.Mutex
}

func newLeftovers() *leftovers {
	return &leftovers{wake: pace.NewSignal()}
}

func (c *leftovers) add(id identity.ID, name string) {
	c.names.Store(id, name)
	c.wake.Set()
}

func (c *leftovers) get(id identity.ID) (name string, ok bool) {
	known, ok := c.names.Load(id)
	name, _ = known.(string)
	return name, ok
}

// serveUntrust blocks a key, ends the invitation that it has used, also for those who could still
// join by it, and forgets what it sent.
// It closes the connections without waiting for a disk. It tries to write every part; what
// fails is tried again until it is written, and the answer names it. A caller that leaves
// stops nothing of it.
func (d *Daemon) serveUntrust(ctx context.Context, _ *local.Conn, p *client.UntrustParams) (any, error) {
	ctx = context.WithoutCancel(ctx)
	who, err := d.trust.Resolve(p.Peer)
	if err != nil {
		met, err := d.findTrustCandidate("untrust", p.Peer)
		if b, ok := d.findBlockedPeer(p.Peer); err != nil && ok {
			met.ID, err = b.ID, nil // called again, by the name that it had
		}
		if err != nil {
			return nil, err
		}
		if who = d.newPeerToTrust(met); d.trust.IsBlocked(who.ID) {
			who.Name = d.peerName(who.ID)
		}
	}
	already := d.trust.IsBlocked(who.ID)
	if who.ID == d.id {
		return nil, kinds.Errorf(kinds.Invalid, "untrust: %s is this daemon itself: name the other one", d.id.Label())
	}
	if err := d.trust.Untrust(who.ID); err != nil {
		return nil, explainTrustError("untrust", err)
	}
	d.leftovers.add(who.ID, who.Name) // first: if the peer is trusted again meanwhile, that removes what is left
	d.forgetPeerInMemory(who.ID)      // before the log, which may be slow
	d.log.Info("untrusted", "peer", who.ID.Label(), "name", who.Name)

	var left unwrittenParts
	_ = d.space.RunWithReserve(func() error { // not before: it asks the disk, and that may be slow
		left = nil
		left.add(client.PartTrust, d.trust.Save())
		d.leftovers.removing.Lock()
		defer d.leftovers.removing.Unlock()
		if _, more := d.leftovers.get(who.ID); more {
			left = append(left, d.deletePeerOnDisk(ctx, who.ID, who.Name)...)
		}
		return left.joinErrors()
	})
	answer := &client.Untrusted{ID: who.ID, Name: who.Name, Already: already}
	for _, u := range left {
		answer.Unwritten = append(answer.Unwritten, u.part)
		answer.Reason = ownwords.Of(u.err)
		d.log.Error("untrust: not on disk yet, and tried again until it is", "peer", who.ID.Label(), "name", who.Name, "part", u.part, "err", u.err)
	}
	return answer, nil
}

// unwrittenParts lists the parts of an untrust that the disk did not take, in the order in
// which they were tried.
type unwrittenParts []unwrittenPart

type unwrittenPart struct {
	part string
	err  error
}

// add adds a part if err is not nil.
func (parts *unwrittenParts) add(part string, err error) {
	if err != nil {
		*parts = append(*parts, unwrittenPart{part, err})
	}
}

// joinErrors returns the errors of all parts as one, nil if there are none.
func (parts unwrittenParts) joinErrors() (all error) {
	for _, p := range parts {
		all = errors.Join(all, p.err)
	}
	return all
}

// forgetPeerInMemory closes the connections of a peer and forgets what no disk is needed for.
func (d *Daemon) forgetPeerInMemory(id identity.ID) {
	d.node.Disconnect(id)
	d.budget.ForgetRefusals(id)
	d.repeats.ForgetPeer(id)
	d.watch.Traffic.ForgetPeer(id)
	d.refusers.Delete(id)
	d.outgoing.Forget(id)
	d.sessions.Waker.ForgetPeer(id)
	d.known.ForgetPeer(id)
	d.updateAddrTable(id)
	d.node.Invitations().Revoke(func(o identity.InvitationInfo) bool { return slices.Contains(o.UsedBy, id) })
}

// deletePeerOnDisk removes from the disk what an untrusted peer has left there: all parts in
// their order, even if one fails. It returns those that failed. The caller holds
// leftovers.removing.
func (d *Daemon) deletePeerOnDisk(ctx context.Context, id identity.ID, name string) (left unwrittenParts) {
	left.add(client.PartChannels, d.channels.ForgetPeer(ctx, id))
	left.add(client.PartInbox, d.inbox.DeletePeerMessages(ctx, id))
	left.add(client.PartDelegations, d.tasks.EndWith(ctx, id, name))
	left.add(client.PartWake, d.sessions.Waker.DeletePeer(ctx, id))
	left.add(client.PartConversations, d.spending.CountUntrust(ctx, id))
	if len(left) > 0 {
		d.leftovers.add(id, name)
	} else {
		d.leftovers.names.Delete(id)
	}
	return left
}

// trustAfterCleanup trusts a peer, after it has removed what an untrust has left of it.
func (d *Daemon) trustAfterCleanup(ctx context.Context, p identity.Peer) (_ identity.Peer, err error) {
	d.leftovers.removing.Lock()
	defer d.leftovers.removing.Unlock()
	if err := d.cleanUpBeforeTrust(ctx, p.ID); err != nil {
		return p, err
	}
	return d.trust.Trust(p)
}

// trustAllAfterCleanup does with all of peers what trustAfterCleanup does with one, and lifts no
// block. It trusts all of them by one write, or none.
func (d *Daemon) trustAllAfterCleanup(ctx context.Context, peers []identity.Peer) ([]identity.Peer, error) {
	d.leftovers.removing.Lock()
	defer d.leftovers.removing.Unlock()
	for _, p := range peers {
		if d.trust.IsBlocked(p.ID) {
			continue // TrustAll refuses it
		}
		if err := d.cleanUpBeforeTrust(ctx, p.ID); err != nil {
			return nil, ownwords.Errorf("%s: %w", p.Name, err)
		}
	}
	return d.trust.TrustAll(peers)
}

// cleanUpBeforeTrust removes what an untrust has left of a peer. The caller holds
// leftovers.removing.
func (d *Daemon) cleanUpBeforeTrust(ctx context.Context, id identity.ID) error {
	name, left := d.leftovers.get(id)
	if !left {
		return nil
	}
	if failed := d.deletePeerOnDisk(ctx, id, name); len(failed) > 0 {
		return ownwords.Errorf("what it sent before it was untrusted cannot be removed: free some space and repeat it: %w", failed[0].err)
	}
	return nil
}

// runLeftoverRemoval goes on with what untrust could not write, until ctx ends; what is left
// then is found at the next start.
func (d *Daemon) runLeftoverRemoval(ctx context.Context) error {
	for pace.Gather(ctx, d.leftovers.wake, removalRetry) == nil {
		for id := range d.leftovers.names.Range {
			_ = d.space.RunWithReserve(func() error { return d.removeLeftoversOf(ctx, id.(identity.ID)) }) // what fails is tried again
		}
	}
	return nil
}

func (d *Daemon) removeLeftoversOf(ctx context.Context, id identity.ID) error {
	d.leftovers.removing.Lock()
	defer d.leftovers.removing.Unlock()
	name, left := d.leftovers.get(id)
	if !left { // trusted again meanwhile
		return nil
	}
	parts := d.deletePeerOnDisk(ctx, id, name)
	for _, p := range parts {
		d.log.Debug("untrust: not on disk yet", "peer", id.Label(), "part", p.part, "err", p.err)
	}
	if _, left := d.leftovers.get(id); !left {
		d.log.Info("untrust: all that it left is removed", "peer", id.Label(), "name", name)
	}
	return parts.joinErrors()
}

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
	peers := append(senders, known...)
	for _, t := range d.delegations.List(nil, func(t *delegation.Delegation, state client.TaskState) bool { return !t.IsOver(state) }) {
		peers = append(peers, t.Peer)
	}
	for _, id := range peers {
		if d.trust.IsBlocked(id) {
			d.leftovers.add(id, d.peerName(id))
		}
	}
	return nil
}

// runTrustSaver writes what is not in the trust store's files yet, until ctx ends: pins of
// first meetings, and what untrust could not write. Close then writes the rest. Peers that
// come at the same time share a write.
func (d *Daemon) runTrustSaver(ctx context.Context) error {
	wait, failed := pinsPause, false
	for pace.Gather(ctx, d.trust.UnsavedSignal(), wait) == nil {
		err := d.space.RunWithReserve(d.trust.Save)
		switch {
		case err == nil && failed:
			d.log.Info("trust store: written")
			wait, failed = pinsPause, false
		case err != nil && !failed:
			d.log.Error("trust store: not on disk yet, and tried again until it is; a restart forgets what is not", "err", err)
			wait, failed = removalRetry, true
		}
	}
	return nil
}
