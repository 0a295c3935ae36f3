package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// The ways from one state of a task to the next. Each but the end of its time is on
// disk before anybody sees it, and none leads away from an end.

// ack records the answer to the delegation, on disk when it returns. An end that
// came before stays. One that is accepted is work of its agent from then on, instead of the
// place that it had, if any.
func (ts *tasks) ack(ctx context.Context, t *task, state client.TaskState, payload wire.Payload, had *registry.Place) error {
	err := ts.db.Write(context.WithoutCancel(ctx), true, func(tx *store.Tx) error { return sqlAck(tx, t.row, state, payload.Object()) })
	if err != nil {
		return fmt.Errorf("record the ack: %w", err)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.acked = true
	if !t.state.IsFinal() || t.state == client.TaskRefused {
		t.state = state
		if t.direction == client.Taken && state == client.TaskAccepted && t.reports {
			ts.count(t, had)
		}
	}
	ts.change(t)
	return nil
}

// set moves a task between states that are not the end: sent and unknown.
func (ts *tasks) set(ctx context.Context, t *task, state client.TaskState) error {
	may := func() bool {
		return !t.ending && (!t.state.IsFinal() || t.state == client.TaskRefused) && t.state != client.TaskAccepted
	}
	return ts.move(ctx, t, state, may, func(tx *store.Tx) error { return sqlState(tx, t.row, state) })
}

// refuse enters that the peer answered a delegation with an error. It may be sent
// again under the same id.
func (ts *tasks) refuse(ctx context.Context, t *task, why string) error {
	may := func() bool { return !t.ending && !t.state.IsFinal() && t.state != client.TaskAccepted }
	return ts.move(ctx, t, client.TaskRefused, may, func(tx *store.Tx) error { return sqlRefused(tx, t.row, why) })
}

// move writes a state and then makes it that of t, if it may, which is asked before
// and after. What has become of an exchange that is over counts also where it could
// not be written: after a restart nothing is known of it then.
func (ts *tasks) move(ctx context.Context, t *task, state client.TaskState, may func() bool, write func(*store.Tx) error) error {
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
		ts.change(t)
	}
	return err
}

// partial records a partial result; it counts as the ack. It reports whether the
// task was still open.
func (ts *tasks) partial(ctx context.Context, t *task, payload wire.Payload) (bool, error) {
	ts.mu.Lock()
	open := !t.state.IsFinal() && !t.ending
	ts.mu.Unlock()
	if !open {
		return false, nil
	}
	err := ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return sqlPartial(tx, t.row, payload.Object()) })
	if err != nil {
		return true, fmt.Errorf("record the partial result: %w", err)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.partials++
	if t.state == client.TaskSent || t.state == client.TaskUnknown {
		t.state = client.TaskAccepted
	}
	ts.change(t)
	return true, nil
}

// end ends a task, on disk when it returns. Only the first end wins; won says
// whether this one did: a deadline that passes while this is written is the first.
func (ts *tasks) end(ctx context.Context, t *task, e ending) (won bool, err error) {
	ts.mu.Lock()
	if t.ending || t.state.IsFinal() {
		ts.mu.Unlock()
		return false, nil
	}
	t.ending = true
	ts.mu.Unlock()
	err = ts.db.Write(context.WithoutCancel(ctx), true, func(tx *store.Tx) error { return sqlFinal(tx, t.row, e) })
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.ending = false
	if err != nil {
		ts.change(t) // what is due is not in the way any more
		return false, fmt.Errorf("record the end of the delegation: %w", err)
	}
	if t.state.IsFinal() {
		return false, nil
	}
	ts.settle(t, e)
	return true, nil
}

// settle ends t in memory. The caller holds mu.
func (ts *tasks) settle(t *task, e ending) {
	t.state, t.finalID, t.owed = e.state, e.id, e.owed
	t.retry, t.pause = time.Now(), firstReport
	if t.counted {
		t.counted = false
		ts.agents.AddDelegations(t.agent, t.peer, -1, nil)
	}
	ts.change(t)
}

// drop removes the entry of a delegation that never left. Where that cannot be written the
// entry stays, as a restart finds it: unknown.
func (ts *tasks) drop(ctx context.Context, t *task) error {
	err := ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return sqlForget(tx, t.row) })
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if err == nil {
		ts.remove(t)
		ts.unshare(t)
	} else if t.state == client.TaskSent {
		t.state = client.TaskUnknown
	}
	ts.change(t)
	return err
}
