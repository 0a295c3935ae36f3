package delegation

import (
	"context"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// The transitions between the states of a delegation. An ack, a partial result and an end are on disk
// before anybody sees them, except that a deadline passes when it passes. The states unknown and refused
// take effect even if they cannot be written. No transition leads away from an end.

// RecordAck records the answer to the delegation, on disk when it returns. An end that
// came before stays. An accepted one is part of its agent's load from then on, instead of the
// place that it had, if any.
func (ts *Table) RecordAck(ctx context.Context, t *Delegation, accepted bool, payload wire.Payload, had *registry.Reservation) error {
	state := client.TaskRefused
	if accepted {
		state = client.TaskAccepted
	}
	ts.mu.Lock()
	t.acking = true
	ts.mu.Unlock()
	err := ts.db.Write(context.WithoutCancel(ctx), true, func(tx *store.Tx) error { return updateDelegationAck(tx, t.Row, state, payload.Object()) })
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.acking = false
	if err != nil {
		ts.notifyWaiters(t)
		return ownwords.Errorf("record the ack: %w", err)
	}
	t.acked = true
	if !t.state.IsFinal() || t.state == client.TaskRefused {
		t.state = state
		if t.Direction == client.Taken && accepted && t.Reports {
			ts.addToAgentLoad(t, had)
		}
	}
	ts.notifyWaiters(t)
	return nil
}

// SetState moves a delegation between states that are not the end: sent and unknown.
func (ts *Table) SetState(ctx context.Context, t *Delegation, state client.TaskState) error {
	may := func() bool {
		return !t.ending && (!t.state.IsFinal() || t.state == client.TaskRefused) && t.state != client.TaskAccepted
	}
	return ts.setStateIf(ctx, t, state, may, func(tx *store.Tx) error { return updateDelegationState(tx, t.Row, state) })
}

// RecordRefusal records that the peer answered a delegation with an error. The delegation may be sent
// again under the same id.
func (ts *Table) RecordRefusal(ctx context.Context, t *Delegation, why string) error {
	may := func() bool { return !t.ending && !t.state.IsFinal() && t.state != client.TaskAccepted }
	return ts.setStateIf(ctx, t, client.TaskRefused, may, func(tx *store.Tx) error { return updateDelegationRefusal(tx, t.Row, why) })
}

// setStateIf writes a state and then sets it, if may allows it before and after. The state after an
// exchange that is over takes effect even if it could not be written: after a restart
// the state is unknown then.
func (ts *Table) setStateIf(ctx context.Context, t *Delegation, state client.TaskState, may func() bool, write func(*store.Tx) error) error {
	ts.mu.Lock()
	open := may()
	ts.mu.Unlock()
	if !open {
		return nil
	}
	err := ts.db.Write(context.WithoutCancel(ctx), false, write)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if may() && (err == nil || state != client.TaskSent) {
		t.state = state
		ts.notifyWaiters(t)
	}
	return err
}

// Partial holds a partial result.
type Partial struct {
	Payload  wire.Payload
	Progress *float64 // nil if that is not known
	Message  string
	Durable  bool // it is to be on disk, fsynced, when it is recorded
}

// RecordPartial records a partial result, which also serves as the ack. It reports whether the
// delegation was still open.
func (ts *Table) RecordPartial(ctx context.Context, t *Delegation, p Partial) (bool, error) {
	ts.mu.Lock()
	open := !t.state.IsFinal() && !t.ending
	ts.mu.Unlock()
	if !open {
		return false, nil
	}
	err := ts.db.Write(context.WithoutCancel(ctx), p.Durable, func(tx *store.Tx) error { return insertDelegationPartial(tx, t.Row, p) })
	if err != nil {
		return true, ownwords.Errorf("record the partial result: %w", err)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.partials++
	if t.state == client.TaskSent || t.state == client.TaskUnknown {
		t.state = client.TaskAccepted
	}
	ts.notifyWaiters(t)
	return true, nil
}

// EndDelegation ends a delegation, on disk when it returns. Only the first end wins; won says
// whether this one did: a deadline that passes while this is written is the first.
func (ts *Table) EndDelegation(ctx context.Context, t *Delegation, e Ending) (won bool, err error) {
	ts.mu.Lock()
	if t.ending || t.state.IsFinal() {
		ts.mu.Unlock()
		return false, nil
	}
	t.ending = true
	ts.mu.Unlock()
	err = ts.db.Write(context.WithoutCancel(ctx), true, func(tx *store.Tx) error { return updateDelegationEnd(tx, t.Row, e) })
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.ending = false
	if err != nil {
		ts.notifyWaiters(t) // what is due is not in the way any more
		return false, ownwords.Errorf("record the end of the delegation: %w", err)
	}
	if t.state.IsFinal() {
		return false, nil
	}
	ts.applyEnd(t, e)
	return true, nil
}

// applyEnd ends t in memory. The caller holds mu.
func (ts *Table) applyEnd(t *Delegation, e Ending) {
	t.state, t.finalID, t.owed = e.State, e.ID, e.owed
	t.nextReport, t.reportPause = time.Now(), firstReportPause
	if t.Direction == client.Given && !t.unwanted { // its peer has just said nothing
		t.nextReport = t.nextReport.Add(firstReportPause)
	}
	if t.countsAsWork {
		t.countsAsWork = false
		ts.agents.AdjustAcceptedCount(t.Agent, t.Peer, -1, nil)
	}
	ts.dropQuestions(t)
	ts.notifyWaiters(t)
	ts.endFollowers(t)
	if t.Direction == client.Taken {
		ts.tellEnd(t)
	}
}

// DeleteUnsent removes the entry of a delegation that never left. If that cannot be written, the
// entry stays in the state that a restart gives it: unknown.
func (ts *Table) DeleteUnsent(ctx context.Context, t *Delegation) error {
	err := ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return deleteDelegation(tx, t.Row) })
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if err == nil {
		ts.remove(t)
		ts.releaseShare(t)
	} else if t.state == client.TaskSent {
		t.state = client.TaskUnknown
	}
	ts.notifyWaiters(t)
	return err
}
