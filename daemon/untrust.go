package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const (
	pinsWait     = time.Second     // of a pin for others, before all of them are written
	removalRetry = 2 * time.Second // between attempts to write what the disk did not take
)

// leftovers are the peers that are trusted no more and of whom something is left on a disk
// that did not take its removal.
type leftovers struct {
	mu   sync.Mutex             // guards left
	left map[identity.ID]string // and the names that they had
	wake pace.Signal            // holds one where something is left

	// removing is held while what a peer has left is removed, and while one is trusted
	// again: so nothing goes that came under the new trust.
	removing sync.Mutex
}

func newLeftovers() *leftovers {
	return &leftovers{left: make(map[identity.ID]string), wake: pace.NewSignal()}
}

func (c *leftovers) add(id identity.ID, name string) {
	c.mu.Lock()
	c.left[id] = name
	c.mu.Unlock()
	c.wake.Set()
}

func (c *leftovers) done(id identity.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.left, id)
}

func (c *leftovers) get(id identity.ID) (name string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, ok = c.left[id]
	return name, ok
}

func (c *leftovers) all() []identity.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.left))
}

// serveUntrust blocks a key, ends the invitation that it has used and forgets what it
// sent. That its connections are closed waits for no disk. Of what has to be written
// every part is tried, and what fails is tried again until it is written; the answer
// names it. A caller that leaves stops nothing of it.
func (d *Daemon) serveUntrust(ctx context.Context, _ *localConn, p *client.UntrustParams) (any, error) {
	ctx = context.WithoutCancel(ctx)
	who, err := d.trust.Resolve(p.Peer)
	if err != nil {
		met, err := d.findCandidate("untrust", p.Peer)
		if b, ok := d.findBlocked(p.Peer); err != nil && ok {
			met.ID, err = b.ID, nil // called again, by the name that it had
		}
		if err != nil {
			return nil, err
		}
		if who = d.newPeer(met); d.trust.Blocked(who.ID) {
			who.Name = d.nameOf(who.ID)
		}
	}
	already := d.trust.Blocked(who.ID)
	if who.ID == d.id {
		return nil, kinds.Errorf(kinds.Invalid, "untrust: %s is this daemon itself: name the other one", d.id.Label())
	}
	if err := d.trust.Untrust(who.ID); err != nil {
		return nil, explainTrustError("untrust", err)
	}
	d.leftovers.add(who.ID, who.Name) // before all that takes time: a trust that comes meanwhile removes what is left
	d.log.Info("untrusted", "peer", who.ID.Label(), "name", who.Name)
	d.forgetInMemory(who.ID)

	var left []unwrittenPart
	_ = d.space.reserve.Spend(func() error { // not before: it asks the disk, and that may be slow
		left = runSteps([]forgetStep{{client.PartTrust, d.trust.Save}})
		d.leftovers.removing.Lock()
		defer d.leftovers.removing.Unlock()
		if _, more := d.leftovers.get(who.ID); more {
			left = append(left, d.forgetOnDisk(ctx, who.ID, who.Name)...)
		}
		return joinErrors(left)
	})
	answer := &client.Untrusted{ID: who.ID, Name: who.Name, Already: already}
	for _, u := range left {
		answer.Unwritten = append(answer.Unwritten, u.part)
		answer.Reason = u.err.Error()
		d.log.Error("untrust: not on disk yet, and tried again until it is", "peer", who.ID.Label(), "name", who.Name, "part", u.part, "err", u.err)
	}
	return answer, nil
}

// forgetStep forgets one part of what a peer has left that is trusted no more.
type forgetStep struct {
	part   string
	forget func() error
}

// unwrittenPart is a part that could not be forgotten on disk.
type unwrittenPart struct {
	part string
	err  error
}

// runSteps runs all steps in their order, whatever becomes of each, and returns the parts
// that failed.
func runSteps(steps []forgetStep) (failed []unwrittenPart) {
	for _, s := range steps {
		if err := s.forget(); err != nil {
			failed = append(failed, unwrittenPart{s.part, err})
		}
	}
	return failed
}

// joinErrors returns the errors of all parts as one, nil if there are none.
func joinErrors(parts []unwrittenPart) (all error) {
	for _, p := range parts {
		all = errors.Join(all, p.err)
	}
	return all
}

// forgetInMemory closes the connections of a peer and forgets what no disk is needed for.
func (d *Daemon) forgetInMemory(id identity.ID) {
	d.node.Disconnect(id)
	d.budget.Forget(id)
	d.repeats.ForgetPeer(id)
	d.refusers.Delete(id)
	d.capabilities.forgetPeer(id)
	d.updateTable(id)
	d.node.Invitations().Revoke(func(o identity.OpenInvitation) bool { return o.UsedBy == id })
}

// forgetOnDisk removes what a peer has left on disk that is trusted no more, and returns
// the parts that it could not remove. The caller holds leftovers.removing.
func (d *Daemon) forgetOnDisk(ctx context.Context, id identity.ID, name string) (left []unwrittenPart) {
	left = runSteps([]forgetStep{
		{client.PartChannels, func() error { return d.channels.Forget(ctx, id) }},
		{client.PartInbox, func() error { return d.inbox.RemovePeer(ctx, id) }},
		{client.PartDelegations, func() error { return d.endDelegationsWith(ctx, id, name) }},
	})
	if len(left) > 0 {
		d.leftovers.add(id, name)
	} else {
		d.leftovers.done(id)
	}
	return left
}

// endDelegationsWith ends all delegations with a peer; of those that cannot be ended it returns
// the first one's error.
func (d *Daemon) endDelegationsWith(ctx context.Context, id identity.ID, name string) (first error) {
	for _, t := range d.delegations.List(nil, func(t *delegation.Delegation, _ client.TaskState) bool { return t.Peer == id }) {
		if err := d.endDistrusted(ctx, t, name+" is not trusted here any more"); first == nil {
			first = err
		}
	}
	return first
}

// trustAgain trusts a peer, after what an untrust has left of it is gone.
func (d *Daemon) trustAgain(ctx context.Context, p identity.Peer) (_ identity.Peer, err error) {
	d.leftovers.removing.Lock()
	defer d.leftovers.removing.Unlock()
	if name, left := d.leftovers.get(p.ID); left {
		if failed := d.forgetOnDisk(ctx, p.ID, name); len(failed) > 0 {
			return p, fmt.Errorf("what it sent before it was untrusted cannot be removed: free some space and repeat it: %w", failed[0].err)
		}
	}
	return d.trust.Trust(p)
}

// removeLeftovers goes on with what untrust could not write, until ctx ends; what is left
// then is found at the next start.
func (d *Daemon) removeLeftovers(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.leftovers.wake:
		}
		if pace.Sleep(ctx, removalRetry) != nil {
			return nil
		}
		for _, id := range d.leftovers.all() {
			_ = d.space.reserve.Spend(func() error { return d.removeLeftoversOf(ctx, id) }) // what fails is tried again
		}
	}
}

func (d *Daemon) removeLeftoversOf(ctx context.Context, id identity.ID) error {
	d.leftovers.removing.Lock()
	defer d.leftovers.removing.Unlock()
	name, left := d.leftovers.get(id)
	if !left { // trusted again meanwhile
		return nil
	}
	parts := d.forgetOnDisk(ctx, id, name)
	for _, p := range parts {
		d.log.Debug("untrust: not on disk yet", "peer", id.Label(), "part", p.part, "err", p.err)
	}
	if _, left := d.leftovers.get(id); !left {
		d.log.Info("untrust: all that it left is removed", "peer", id.Label(), "name", name)
	}
	return joinErrors(parts)
}

// findLeftovers finds what the last run of the daemon could not remove of blocked peers.
func (d *Daemon) findLeftovers(ctx context.Context) error {
	senders, err := d.inbox.Senders(ctx)
	if err != nil {
		return fmt.Errorf("find what untrust has left: %w", err)
	}
	left := make(map[identity.ID]bool)
	for _, id := range senders {
		left[id] = true
	}
	for _, t := range d.delegations.List(nil, func(t *delegation.Delegation, state client.TaskState) bool { return !t.IsOver(state) }) {
		left[t.Peer] = true
	}
	known, err := d.channels.Known(ctx)
	if err != nil {
		return fmt.Errorf("find what untrust has left: %w", err)
	}
	for _, id := range known {
		left[id] = true
	}
	for id := range left {
		if d.trust.Blocked(id) {
			d.leftovers.add(id, d.nameOf(id))
		}
	}
	return nil
}

// endRefused ends the delegations with a peer that does not trust this daemon: it
// would refuse whatever is still owed, and sends nothing. Those that began after it
// had said so belong to a trust that is new; and so may those that are still to be
// given, whose calls hear for themselves.
func (d *Daemon) endRefused(id identity.ID, at time.Time) {
	for _, t := range d.delegations.List(nil, func(t *delegation.Delegation, state client.TaskState) bool {
		return t.Peer == id && t.Created.Before(at) && !(t.Direction == client.Given && state == client.TaskSent)
	}) {
		if err := d.endDistrusted(context.Background(), t, d.nameOf(id)+" does not trust this daemon"); err != nil {
			d.log.Error("delegation", "id", t.ID, "err", err)
		}
	}
}

// endDistrusted ends a delegation where one side trusts the other no more, and tells the
// agent that works on it.
func (d *Daemon) endDistrusted(ctx context.Context, t *delegation.Delegation, why string) error {
	gone := kinds.Errorf(kinds.NotTrusted, "%s", why)
	e := delegation.Ending{State: client.TaskFailed, ID: wire.NewMessageID(), Outcome: gone.Message, Payload: kinds.Encode(gone)}
	if t.Direction == client.Taken {
		e.State = client.TaskCancelled
	}
	won, err := d.delegations.End(ctx, t, e)
	if err != nil || !won || t.Direction != client.Taken {
		return err
	}
	a := d.agents.AgentNamed(t.Agent)
	if a == nil {
		return nil
	}
	env := wire.NewEnvelope(t.Peer, d.id, kinds.KindCancel, kinds.Encode(&kinds.Cancel{Reason: gone.Message}))
	env.ID, env.Ref, env.Thread, env.Hops = e.ID, &t.ID, t.Chain.Thread, t.Chain.Hops
	in := &client.Inbound{Name: d.nameOf(t.Peer), Delegation: d.describeDelegation(ctx, t, false), Envelope: *env}
	d.calls.Go(func() {
		if err := callAgent(context.WithoutCancel(ctx), confirmTime, a, in, nil); err != nil {
			d.log.Debug("not confirmed", "agent", a.Name, "kind", in.Kind, "id", in.ID, "err", err)
		}
	})
	return nil
}

// saveTrust writes what counts and is in no file yet, pins of first meetings and what
// untrust could not write, until ctx ends, and Close then writes the rest. Many peers
// that come at once are not a write of both files each.
func (d *Daemon) saveTrust(ctx context.Context) error {
	wait, failed := pinsWait, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.trust.Unsaved():
		}
		if pace.Sleep(ctx, wait) != nil {
			return nil
		}
		err := d.space.reserve.Spend(d.trust.Save)
		switch {
		case err == nil && failed:
			d.log.Info("trust store: written")
			wait, failed = pinsWait, false
		case err != nil && !failed:
			d.log.Error("trust store: not on disk yet, and tried again until it is; a restart forgets what is not", "err", err)
			wait, failed = removalRetry, true
		}
	}
}
