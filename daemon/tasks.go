package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
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
	orphanedFor   = registry.NameKept
	firstReport   = 5 * time.Second // between attempts to report a lost task; doubles
	slowestReport = 10 * time.Minute
)

// tasks is the table of delegations, in memory what decides and on disk all of it.
// Every transition is written before anybody sees it.
type tasks struct {
	db     *store.DB
	agents *registry.Registry
	taken  *budget.Account // delegations that are not final
	wake   chan struct{}   // something is due earlier than before
	late   *records

	mu    sync.Mutex // guards what follows and the fields of tasks named above
	table map[taskKey]*task
	sizes map[client.TaskDirection]map[identity.ID]int // entries of the table, by direction and peer
	rows  int64                                        // the last row that was begun: none is used twice
	next  time.Time                                    // when run looks again; zero: when it is woken
}

type taskKey struct {
	direction client.TaskDirection
	peer      identity.ID
	id        wire.MessageID
}

func (t *task) key() taskKey { return taskKey{t.direction, t.peer, t.id} }

// openTasks reads the table as the last run of the daemon left it.
func openTasks(ctx context.Context, db *store.DB, a *registry.Registry, book *budget.Book, log *slog.Logger) (*tasks, error) {
	ts := &tasks{
		db: db, agents: a, taken: book.Open(budget.Delegations), wake: make(chan struct{}, 1), late: newRecords(log),
		table: make(map[taskKey]*task), sizes: map[client.TaskDirection]map[identity.ID]int{client.Given: {}, client.Taken: {}},
	}
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
			t.alone, t.shared = now, true
			ts.taken.Add(t.peer, 1)
			ts.count(t, nil)
		}
		if t.agent != "" && !t.final() {
			a.KeepName(t.agent, t.holder, now)
		}
		t.retry, t.pause = now, firstReport
		ts.put(t)
		ts.rows = max(ts.rows, t.row)
	}
	return ts, nil
}

// put enters t in the table, and remove takes it out, if it is there. The caller holds mu.
func (ts *tasks) put(t *task) {
	ts.table[t.key()] = t
	ts.sizes[t.direction][t.peer]++
}

func (ts *tasks) remove(t *task) {
	if ts.table[t.key()] != t {
		return
	}
	delete(ts.table, t.key())
	entries := ts.sizes[t.direction]
	if entries[t.peer]--; entries[t.peer] == 0 {
		delete(entries, t.peer)
	}
}

// count makes t count as work of its agent, from now on without the place that it had, if any.
func (ts *tasks) count(t *task, had *registry.Place) {
	t.counted = true
	ts.agents.AddDelegations(t.agent, t.peer, 1, had)
}

// get returns the entry of a delegation.
func (ts *tasks) get(direction client.TaskDirection, peer identity.ID, id wire.MessageID) *task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.table[taskKey{direction, peer, id}]
}

// find returns a delegation by its id alone; of several the first in the order of
// directions.
func (ts *tasks) find(id wire.MessageID, directions ...client.TaskDirection) *task {
	return ts.findOf(nil, id, directions...)
}

// findOf is find among what is the holder's own, nil for all.
func (ts *tasks) findOf(by *registry.Credential, id wire.MessageID, directions ...client.TaskDirection) *task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, direction := range directions {
		for key, t := range ts.table {
			if key.id == id && key.direction == direction && (by == nil || t.holder == by.KeyHash) {
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
	if t.direction == client.Taken {
		if err := ts.taken.Take(t.peer, 1); err != nil {
			ts.mu.Unlock()
			return nil, false, kinds.Errorf(kinds.Overloaded, "delegate: too many delegations are open (%v): wait until some have ended", err)
		}
		t.shared = true
	}
	evicted, room := ts.room(t.direction, t.peer)
	if !room {
		ts.unshare(t)
		ts.mu.Unlock()
		return nil, false, kinds.Errorf(kinds.Overloaded, "%d delegations are open, the most there can be: wait until some have ended", maxTasks)
	}
	ts.rows++
	t.row, t.state = ts.rows, client.TaskSent
	ts.put(t)
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
		ts.remove(t)
		if evicted != nil && ts.table[evicted.key()] == nil {
			ts.put(evicted)
		}
		ts.unshare(t)
		ts.mu.Unlock()
		return nil, false, fmt.Errorf("enter the delegation: %w", err)
	}
	return t, true, nil
}

// unshare gives back what t takes of its peer's share. The caller holds mu.
func (ts *tasks) unshare(t *task) {
	if t.shared {
		t.shared = false
		ts.taken.Give(t.peer, 1)
	}
}

// room drops an entry that is final if the table is full: the oldest of the peer
// that has the most entries, so that nobody's outcomes are pushed out by another's.
func (ts *tasks) room(direction client.TaskDirection, peer identity.ID) (evicted *task, ok bool) {
	entries, n := ts.sizes[direction], 0
	for _, of := range entries {
		n += of
	}
	if n < maxTasks {
		return nil, true
	}
	entries[peer]++ // which wants one more
	defer func() {
		if entries[peer]--; entries[peer] == 0 {
			delete(entries, peer)
		}
	}()
	for _, t := range ts.table {
		if t.direction != direction || !t.final() || t.owed {
			continue
		}
		if evicted == nil || entries[t.peer] > entries[evicted.peer] || entries[t.peer] == entries[evicted.peer] && t.created.Before(evicted.created) {
			evicted = t
		}
	}
	if evicted != nil {
		ts.remove(evicted)
	}
	return evicted, evicted != nil
}

// show describes t without what is on disk only.
func (ts *tasks) show(t *task) client.Task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	shown := client.Task{ID: t.id, Direction: t.direction, State: t.state, Deadline: client.Time{Time: t.deadline}, Partials: t.partials}
	if t.counted {
		shown.Agent = t.agent
	}
	return shown
}

// repeated reports whether id is the message that ended t.
func (ts *tasks) repeated(t *task, id wire.MessageID) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.state.IsFinal() && t.finalID == id
}

// stateOf returns the state and whether an ack is recorded.
func (ts *tasks) stateOf(t *task) (state client.TaskState, acked bool) {
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
	if t.final() {
		ts.unshare(t)
	}
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
		if ts.table[t.key()] != t {
			ts.mu.Unlock()
			return notFound(t.id)
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

// openNames returns the agents that have open delegations, given or taken.
func (ts *tasks) openNames() map[string]bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	open := make(map[string]bool)
	for _, t := range ts.table {
		if t.agent != "" && !t.final() {
			open[t.agent] = true
		}
	}
	return open
}

// pass gives the open delegations of a name to the agent that has it now.
func (ts *tasks) pass(ctx context.Context, name string, key registry.KeyHash) error {
	ts.mu.Lock()
	var rows []int64
	for _, t := range ts.table {
		if t.agent == name && t.holder != key && !t.final() {
			t.holder, rows = key, append(rows, t.row)
		}
	}
	ts.mu.Unlock()
	if len(rows) == 0 {
		return nil
	}
	return ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error {
		for _, row := range rows {
			if err := sqlPass(tx, row, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// own reports whether a delegation is the holder's own.
func (ts *tasks) own(t *task, by registry.Credential) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.holder == by.KeyHash
}

// list returns the tasks that match, in no order.
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
