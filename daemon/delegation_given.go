package daemon

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// ackTime is how long the ack of a delegate or cancel is waited for, that of a delegate
// no longer than to its deadline.
const ackTime = 30 * time.Second

// serveDelegate gives a task to a peer: the entry exists before the first byte leaves,
// and the ack is on disk before the caller has it. A repeat of a call whose ack is
// known gets that; any other is sent again, and the peer knows it by its id.
func (d *Daemon) serveDelegate(ctx context.Context, s *localConn, p *client.DelegateParams) (any, error) {
	request, err := d.compose(s, kinds.KindDelegate, &p.Head, p.To, p.Payload)
	if err != nil {
		return nil, err
	}
	env := request.Envelope
	what, err := kinds.Parse[kinds.Delegate](p.Payload)
	if err != nil {
		return nil, err
	}
	as := s.credential()
	t := &delegation.Delegation{
		Direction: client.Given, Peer: env.To, ID: env.ID, Content: inbox.HashContent(env), Agent: as.Name, KeyHash: as.KeyHash,
		Chain: env.Chain(), Reports: what.Reports(), Created: time.Now(),
	}
	if what.DeadlineMS > 0 {
		t.Deadline = t.Created.Add(what.Deadline())
	}
	hash := t.Content
	t, fresh, err := d.delegations.Begin(ctx, t, what.Task)
	if err != nil {
		return nil, err
	}
	given := func(ack wire.Payload) *client.Delegated {
		return &client.Delegated{ID: env.ID, From: env.To, Payload: ack}
	}
	if !fresh {
		if t.Content != hash || s.isGuest && !d.delegations.IsOwn(t, as) {
			return nil, inbox.ReusedID(env)
		}
		if state, acked := d.delegations.State(t); acked {
			ack, err := d.delegations.ReadAck(ctx, t)
			if err != nil {
				return nil, err
			}
			d.log.Debug("repeat", "id", env.ID, "state", state)
			return given(ack), nil
		}
		if err := d.delegations.SetState(ctx, t, client.TaskSent); err != nil {
			return nil, err
		}
	}

	end := time.Now().Add(ackTime)
	if !t.Deadline.IsZero() && t.Deadline.Before(end) {
		end = t.Deadline
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	defer d.delegations.OnInterrupt(t, abort)()
	reply, _, err := d.exchange(ctx, request)
	if err != nil {
		return nil, d.recordNotGiven(ctx, t, fresh, err)
	}
	ack, err := kinds.Parse[kinds.Ack](reply.Payload)
	if err != nil {
		return nil, err
	}
	state := client.TaskAccepted
	if !ack.Accepted {
		state = client.TaskRefused
	}
	if err := d.delegations.RecordAck(ctx, t, state, reply.Payload, nil); err != nil {
		return nil, err
	}
	return given(reply.Payload), nil
}

// errCancelled is why the exchange of a delegation ends that is cancelled before
// its ack.
var errCancelled = kinds.Errorf(kinds.Cancelled, "the delegation was cancelled before it was accepted")

// recordNotGiven enters what is known of a delegation that has no ack, and returns the
// error for the caller.
func (d *Daemon) recordNotGiven(ctx context.Context, t *delegation.Delegation, fresh bool, err error) error {
	e := kinds.AsError(err)
	var fail error
	switch {
	case errors.Is(context.Cause(ctx), errCancelled):
		e = errCancelled
		_, fail = d.delegations.End(ctx, t, delegation.Ending{State: client.TaskCancelled, Outcome: e.Message})
	case fresh && (e.Delivered() == kinds.DeliveredNo || e.From == "" && e.Code == kinds.Invalid):
		fail = d.delegations.Drop(ctx, t) // it never left: as if it had never been
	case e.Code == kinds.NotTrusted: // nothing will come of an earlier attempt either
		fail = d.endDistrusted(ctx, t, e.Message)
	case e.From != "" && e.Code != kinds.Internal && e.Code != kinds.Timeout && e.Code != kinds.Cancelled:
		fail = d.delegations.RecordRefusal(ctx, t, e.Message)
	default: // a failed receiver may have begun it, and so may an earlier attempt
		fail = d.delegations.SetState(ctx, t, client.TaskUnknown)
	}
	if fail != nil {
		d.log.Error("delegation", "id", t.ID, "err", fail)
	}
	return e
}

// serveCancel ends a delegation that was given: by ending its exchange while that has
// no answer, else by asking the peer.
func (d *Daemon) serveCancel(ctx context.Context, s *localConn, p *client.CancelParams) (any, error) {
	t := d.delegations.FindByID(s.guestCredential(), p.Ref, client.Given)
	to := p.To
	if to == "" || s.isGuest {
		if t == nil && s.isGuest {
			return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no delegation that this agent has given: see tasks", p.Ref)
		}
		if t == nil {
			return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no delegation of this daemon: say in `to` whom it went to", p.Ref)
		}
		to = cmp.Or(to, t.Peer.String())
	}
	env, whom, err := d.draft(s, kinds.KindCancel, &p.Head, to, p.Payload)
	if err != nil {
		return nil, err
	}
	env.Ref = &p.Ref
	if t != nil && t.Peer != whom.ID {
		return nil, kinds.Errorf(kinds.NotFound, "ref: the delegation %s went to %s, not to %s", p.Ref, d.nameOf(t.Peer), whom.Name)
	}
	if t != nil {
		if state, _ := d.delegations.State(t); state.IsFinal() {
			return &client.CancelAnswer{Ref: p.Ref, Payload: encodeNotAccepted(state)}, nil
		}
		if d.delegations.Interrupt(t, errCancelled) {
			return &client.CancelAnswer{Ref: p.Ref, Payload: kinds.Encode(&kinds.Ack{Accepted: true})}, nil
		}
		env.Thread, env.Hops, env.Trace = t.Chain.Thread, t.Chain.Hops, t.Chain.Trace
	}
	request, err := kinds.Check(env)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, ackTime)
	defer cancel()
	reply, _, err := d.exchange(ctx, request)
	if e, ok := errors.AsType[*kinds.Error](err); t != nil && ok && e.Code == kinds.NotFound && e.From != "" {
		// Nobody works on it there: it never came, or is forgotten.
		if err := d.endCancelled(ctx, t, env); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	ack, err := kinds.Parse[kinds.Ack](reply.Payload)
	if err != nil {
		return nil, err
	}
	if t != nil && ack.Accepted {
		if err := d.endCancelled(ctx, t, env); err != nil {
			return nil, err
		}
	}
	return &client.CancelAnswer{Ref: p.Ref, Payload: reply.Payload}, nil
}

// onReport takes a result, or an error, of a delegation that was given to the
// sender: into the table first, on disk, then to the agent that delegated, else to
// all, else to the inbox.
func (d *Daemon) onReport(ctx context.Context, sender identity.Peer, env *wire.Envelope) (inbox.Outcome, bool) {
	t := d.delegations.Find(client.Given, sender.ID, *env.Ref)
	if t == nil {
		return refused(delegation.NotFound(*env.Ref))
	}
	if err := d.permissions.check(sender, env.Kind, ""); err != nil {
		return refused(err)
	}
	if state, _ := d.delegations.State(t); !state.IsFinal() {
		if err := d.space.checkRoom(sender.ID); err != nil {
			return refused(err)
		}
	}
	open, err := d.recordReport(ctx, t, env)
	if err != nil {
		return refused(err)
	}
	// The same message again, after a restart that lost its outcome, goes its way.
	if !open && !d.delegations.EndedBy(t, env.ID) {
		state, _ := d.delegations.State(t)
		return refused(kinds.Errorf(kinds.NotFound, "ref: the delegation %s is %s already: nothing more is expected", t.ID, state))
	}
	takers := d.agents.FindTakers(env.Kind, "", env.Agent)
	if t.Agent != "" {
		takers = selectTakers(takers, t.Agent)
	}
	return d.handOrHold(ctx, env, cmp.Or(t.Agent, env.Agent), takers, &client.Inbound{Envelope: *env, Name: sender.Name, Delegation: d.describeDelegation(ctx, t, false)})
}

// selectTakers returns who of the takers gets what a delegation of an agent led to: that
// agent, or where it is away those whom the daemon's owner has attached.
func selectTakers(takers []*registry.Agent, name string) (others []*registry.Agent) {
	for _, a := range takers {
		if a.Name == name {
			return []*registry.Agent{a}
		}
		if !a.IsGuest {
			others = append(others, a)
		}
	}
	return others
}

// recordReport enters a result or error and reports whether the task was open.
func (d *Daemon) recordReport(ctx context.Context, t *delegation.Delegation, env *wire.Envelope) (open bool, err error) {
	e := delegation.Ending{State: client.TaskFailed, ID: env.ID, Payload: env.Payload}
	if env.Kind == kinds.KindError {
		p, err := kinds.Parse[kinds.Error](env.Payload)
		if err != nil {
			return false, err
		}
		e.Outcome = p.Message
		return d.delegations.End(ctx, t, e)
	}
	p, err := kinds.Parse[kinds.Result](env.Payload)
	if err != nil {
		return false, err
	}
	e.Outcome = p.Outcome
	switch p.Status {
	case "partial":
		return d.delegations.RecordPartial(ctx, t, env.Payload)
	case "completed":
		e.State = client.TaskCompleted
	}
	return d.delegations.End(ctx, t, e)
}
