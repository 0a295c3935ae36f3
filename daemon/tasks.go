package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// Bounds of the two task tables (protocol, section 4).
const (
	maxTasks      = 1024           // given, and as many taken
	keptAfter     = time.Hour      // an entry outlives its deadline by this
	keptWithout   = 24 * time.Hour // and lives this long without one
	orphanedFor   = 10 * time.Minute
	firstReport   = 5 * time.Second // between attempts to report a lost task; doubles
	slowestReport = 10 * time.Minute
)

// task is one delegation, given to a peer or taken from one. What is large (its
// text, the ack, results) stays on disk.
type task struct {
	row       int64
	direction string // client.Given or client.Taken
	peer      identity.ID
	id        wire.MessageID
	hash      digest
	agent     string // attached name: of who delegated, or of who works on it
	chain     chain
	reports   bool // a result is owed
	created   time.Time
	deadline  time.Time // zero: none

	// Under tasks.mu.
	state    string
	acked    bool           // the ack is on disk
	partials uint64         // how many have come
	finalID  wire.MessageID // message that ended it
	owed     bool           // its end is still to be told to the peer
	ending   bool           // its end is being written
	counted  bool           // it counts as work of its agent
	alone    time.Time      // since when no agent of that name is attached; zero: one is
	retry    time.Time      // when to report again
	pause    time.Duration  // until the retry after that
	changed  chan struct{}  // closed at the next change; nil while nobody waits
	abort    []context.CancelCauseFunc
}

// final reports whether nothing is owed or expected any more.
func (t *task) final() bool {
	return final(t.state) || t.state == client.TaskAccepted && !t.reports
}

func final(state string) bool { return (&client.Task{State: state}).Final() }

// expires returns when an open task's time is over, and until when its entry is kept.
func (t *task) expires() (over, forgotten time.Time) {
	if t.deadline.IsZero() {
		end := t.created.Add(keptWithout)
		return end, end
	}
	return t.deadline, t.deadline.Add(keptAfter)
}

// due returns when the clock has to act on t next.
func (t *task) due() time.Time {
	over, forgotten := t.expires()
	switch {
	case t.owed && t.retry.Before(forgotten):
		return t.retry
	case t.final():
		return forgotten
	case !t.alone.IsZero() && t.deadline.IsZero():
		return earlier(over, t.alone.Add(orphanedFor))
	}
	return over
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// ending is how a task ends.
type ending struct {
	state   string
	id      wire.MessageID // of the message that says so
	outcome string         // in words
	payload wire.Payload   // of that message
	owed    bool           // the peer has not been told
}

// tasks is the table of delegations, in memory what decides and on disk all of it.
// Every transition is written before anybody sees it.
type tasks struct {
	db     *store.DB
	agents *agents
	wake   chan struct{} // something is due earlier than before

	mu    sync.Mutex // guards what follows and the fields of tasks named above
	table map[taskKey]*task
	next  time.Time // when run looks again; zero: when it is woken
}

type taskKey struct {
	direction string
	peer      identity.ID
	id        wire.MessageID
}

func (t *task) key() taskKey { return taskKey{t.direction, t.peer, t.id} }

// openTasks reads the table as the last run of the daemon left it.
func openTasks(ctx context.Context, db *store.DB, a *agents) (*tasks, error) {
	ts := &tasks{db: db, agents: a, wake: make(chan struct{}, 1), table: make(map[taskKey]*task)}
	var all []*task
	err := db.Read(ctx, func(tx *store.Tx) (err error) {
		all, err = sqlTasks(tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open tasks: %w", err)
	}
	now := time.Now()
	for _, t := range all {
		if t.state == client.TaskSent { // the process died before the ack
			t.state = client.TaskUnknown
		}
		if t.direction == client.Taken && !t.final() {
			t.alone = now
			ts.count(t)
		}
		t.retry, t.pause = now, firstReport
		ts.table[t.key()] = t
	}
	return ts, nil
}

// count makes t count as work of its agent.
func (ts *tasks) count(t *task) {
	t.counted = true
	ts.agents.work(t.agent, 1)
}

// get returns the entry of a delegation.
func (ts *tasks) get(direction string, peer identity.ID, id wire.MessageID) *task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.table[taskKey{direction, peer, id}]
}

// find returns a delegation by its id alone; of several the first in the order of
// directions.
func (ts *tasks) find(id wire.MessageID, directions ...string) *task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, direction := range directions {
		for key, t := range ts.table {
			if key.id == id && key.direction == direction {
				return t
			}
		}
	}
	return nil
}

// begin enters a delegation before its first byte leaves, or before its agent
// hears of it. If there is an entry already, that is returned and fresh is false.
func (ts *tasks) begin(ctx context.Context, t *task, text string) (entry *task, fresh bool, err error) {
	ts.mu.Lock()
	if old := ts.table[t.key()]; old != nil {
		ts.mu.Unlock()
		return old, false, nil
	}
	evicted, room := ts.room(t.direction)
	if !room {
		ts.mu.Unlock()
		return nil, false, kinds.Errorf(kinds.Overloaded, "%d delegations are open, the most there can be: wait until some have ended", maxTasks)
	}
	t.state = client.TaskSent
	ts.table[t.key()] = t
	ts.change(t)
	ts.mu.Unlock()
	err = ts.db.Write(ctx, false, func(tx *store.Tx) error {
		if evicted != nil {
			if err := sqlForget(tx, evicted.row); err != nil {
				return err
			}
		}
		return sqlBegin(tx, t, text)
	})
	if err != nil {
		ts.mu.Lock()
		delete(ts.table, t.key())
		ts.mu.Unlock()
		return nil, false, fmt.Errorf("enter the delegation: %w", err)
	}
	return t, true, nil
}

// room drops the oldest entry that is final if the table is full.
func (ts *tasks) room(direction string) (evicted *task, ok bool) {
	n := 0
	for _, t := range ts.table {
		if t.direction != direction {
			continue
		}
		n++
		if t.final() && !t.owed && (evicted == nil || t.created.Before(evicted.created)) {
			evicted = t
		}
	}
	if n < maxTasks {
		return nil, true
	}
	if evicted != nil {
		delete(ts.table, evicted.key())
	}
	return evicted, evicted != nil
}

// ack records the answer to the delegation, on disk when it returns. An end that
// came before stays.
func (ts *tasks) ack(ctx context.Context, t *task, state string, payload wire.Payload) error {
	err := ts.db.Write(context.WithoutCancel(ctx), true, func(tx *store.Tx) error { return sqlAck(tx, t.row, state, payload.Object()) })
	if err != nil {
		return fmt.Errorf("record the ack: %w", err)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.acked = true
	if !final(t.state) || t.state == client.TaskRefused {
		t.state = state
		if t.direction == client.Taken && state == client.TaskAccepted && t.reports {
			ts.count(t)
		}
	}
	ts.change(t)
	return nil
}

// set moves a task between states that are not the end: sent and unknown.
func (ts *tasks) set(ctx context.Context, t *task, state string) error {
	ts.mu.Lock()
	if t.ending || final(t.state) && t.state != client.TaskRefused || t.state == client.TaskAccepted {
		ts.mu.Unlock()
		return nil
	}
	t.state = state
	ts.change(t)
	ts.mu.Unlock()
	return ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return sqlState(tx, t.row, state) })
}

// refuse enters that the peer answered a delegation with an error. It may be sent
// again under the same id.
func (ts *tasks) refuse(ctx context.Context, t *task, why string) error {
	ts.mu.Lock()
	if t.ending || final(t.state) || t.state == client.TaskAccepted {
		ts.mu.Unlock()
		return nil
	}
	t.state = client.TaskRefused
	ts.change(t)
	ts.mu.Unlock()
	return ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return sqlRefused(tx, t.row, why) })
}

// show describes t without what is on disk only.
func (ts *tasks) show(t *task) client.Task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return client.Task{ID: t.id, Direction: t.direction, State: t.state, Deadline: t.deadline.UTC(), Partials: t.partials}
}

// partial records a partial result; it counts as the ack. It reports whether the
// task was still open.
func (ts *tasks) partial(ctx context.Context, t *task, payload wire.Payload) (bool, error) {
	ts.mu.Lock()
	open := !final(t.state) && !t.ending
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
// whether this one did.
func (ts *tasks) end(ctx context.Context, t *task, e ending) (won bool, err error) {
	ts.mu.Lock()
	if t.ending || final(t.state) {
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
		return false, fmt.Errorf("record the end of the delegation: %w", err)
	}
	t.state, t.finalID, t.owed = e.state, e.id, e.owed
	t.retry, t.pause = time.Now(), firstReport
	if t.counted {
		t.counted = false
		ts.agents.work(t.agent, -1)
	}
	ts.change(t)
	return true, nil
}

// repeated reports whether id is the message that ended t.
func (ts *tasks) repeated(t *task, id wire.MessageID) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return final(t.state) && t.finalID == id
}

// stateOf returns the state and whether an ack is recorded.
func (ts *tasks) stateOf(t *task) (state string, acked bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.state, t.acked
}

// ackOf returns the recorded ack.
func (ts *tasks) ackOf(ctx context.Context, t *task) (ack wire.Payload, err error) {
	err = ts.db.Read(ctx, func(tx *store.Tx) error {
		b, err := sqlAckOf(tx, t.row)
		ack = b
		return err
	})
	return ack, err
}

// change wakes who waits for t, and the clock if t is due before it would look.
// The caller holds mu.
func (ts *tasks) change(t *task) {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
	if ts.next.IsZero() || t.due().Before(ts.next) {
		select {
		case ts.wake <- struct{}{}:
		default: // it is woken already
		}
	}
}

// wait blocks until t is final, or has more than *after partial results, or ctx ends.
func (ts *tasks) wait(ctx context.Context, t *task, after *uint64) error {
	for {
		ts.mu.Lock()
		if t.final() || after != nil && t.partials > *after {
			ts.mu.Unlock()
			return nil
		}
		if t.changed == nil {
			t.changed = make(chan struct{})
		}
		changed := t.changed
		ts.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// abortable lets interrupt end the exchange that carries the delegation, until
// done is called.
func (ts *tasks) abortable(t *task, cancel context.CancelCauseFunc) (done func()) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.abort = append(t.abort, cancel)
	return func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		t.abort = nil // what is known of one attempt holds for the others
	}
}

// interrupt ends the exchange of a delegation that has no answer yet, which is
// how it is cancelled then, and reports whether there was one.
func (ts *tasks) interrupt(t *task, cause error) bool {
	ts.mu.Lock()
	abort := t.abort
	sent := t.state == client.TaskSent
	ts.mu.Unlock()
	if !sent || len(abort) == 0 {
		return false
	}
	for _, cancel := range abort {
		cancel(cause)
	}
	return true
}

// drop removes the entry of a delegation that never left.
func (ts *tasks) drop(ctx context.Context, t *task) error {
	ts.mu.Lock()
	delete(ts.table, t.key())
	ts.change(t)
	ts.mu.Unlock()
	return ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return sqlForget(tx, t.row) })
}

// list returns the tasks that match, the oldest first.
func (ts *tasks) list(match func(*task) bool) []*task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var all []*task
	for _, t := range ts.table {
		if match(t) {
			all = append(all, t)
		}
	}
	return all
}
