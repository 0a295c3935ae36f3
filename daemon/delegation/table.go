// Package delegation holds the table of delegations, given and taken: their states,
// their deadlines and the agents that work on them.
//
// All of the table is on disk, and the part that decisions need is in memory too. An ack, a partial result
// and an end are written before anybody sees them, except that a deadline passes when it passes.
// Of several ends of one delegation the first wins.
//
// The table may call the registry and the waker while it is locked. They never call the table.
//
// Package tasks carries the delegations, and reports to their agents and peers.
package delegation

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// Bounds of the delegations given, and of those taken (protocol, section 4).
const (
	MaxDelegations   = 1024            // given, and as many taken
	firstReportPause = 5 * time.Second // between attempts to report a lost delegation; doubles
	maxReportPause   = 10 * time.Minute
)

// Table is the table of delegations. All of it is on disk, and the part that decisions need is in memory.
type Table struct {
	db     *store.DB
	agents *registry.Registry
	taken  *budget.Account // delegations that are not final
	wake   pace.Signal     // something is due earlier than before
	log    *slog.Logger

	tellEnd func(*Delegation) // is called when a taken delegation ends, while the table is locked

	questionBytes *budget.Account

	unwrittenAdded pace.Signal // set if unwrittenEnds is not empty

	mu            sync.Mutex // guards what follows and the fields of delegations named above
	table         map[delegationKey]*Delegation
	sizes         map[client.TaskDirection]map[identity.ID]int // entries of the table, by direction and peer
	reports       map[identity.ID]int                          // under way, by peer
	rows          int64                                        // the last row that was begun; no row is used twice
	next          time.Time                                    // when Run looks again, or zero if it waits to be woken
	unwrittenEnds []unwrittenEnd
}

type delegationKey struct {
	direction client.TaskDirection
	peer      identity.ID
	id        wire.MessageID
}

func (t *Delegation) key() delegationKey { return delegationKey{t.Direction, t.Peer, t.ID} }

// OpenTable reads the table as the last run of the daemon left it. tellEnd is called when a taken
// delegation ends, and calls nothing of the table.
func OpenTable(ctx context.Context, db *store.DB, a *registry.Registry, book *budget.Book, tellEnd func(*Delegation), log *slog.Logger) (*Table, error) {
	ts := &Table{
		tellEnd: tellEnd, db: db, agents: a, taken: book.OpenAccount(budget.Delegations), questionBytes: book.OpenAccount(budget.Questions), wake: pace.NewSignal(), log: log, unwrittenAdded: pace.NewSignal(),
		table: make(map[delegationKey]*Delegation), reports: make(map[identity.ID]int), sizes: map[client.TaskDirection]map[identity.ID]int{client.Given: {}, client.Taken: {}},
	}
	all, err := store.ReadValue(ctx, db, readDelegations)
	if err != nil {
		return nil, ownwords.Errorf("open tasks: %w", err)
	}
	questions, err := store.ReadValue(ctx, db, readQuestions)
	if err != nil {
		return nil, ownwords.Errorf("open tasks: %w", err)
	}
	now := time.Now()
	for _, t := range all {
		if !t.isOverNow() {
			ts.restoreQuestions(t, questions[t.Row])
		}
		if t.state == client.TaskSent { // the process died before the ack
			t.state = client.TaskUnknown
		}
		if t.Direction == client.Taken && !t.isOverNow() {
			t.agentAwaySince, t.takesShare = now, true
			ts.taken.AddUnchecked(t.Peer, 1)
			ts.addToAgentLoad(t, nil)
		}
		if t.Agent != "" && !t.isOverNow() {
			a.ProtectName(t.Agent, t.KeyHash, now)
		}
		t.nextReport, t.reportPause = now, firstReportPause
		ts.insert(t)
		ts.rows = max(ts.rows, t.Row)
	}
	for _, t := range all {
		ts.noteParent(t)
	}
	return ts, nil
}

// insert enters t in the table, and remove removes it, if it is there. The caller holds mu.
func (ts *Table) insert(t *Delegation) {
	ts.table[t.key()] = t
	ts.sizes[t.Direction][t.Peer]++
}

func (ts *Table) remove(t *Delegation) {
	if ts.table[t.key()] != t {
		return
	}
	delete(ts.table, t.key())
	entries := ts.sizes[t.Direction]
	if entries[t.Peer]--; entries[t.Peer] == 0 {
		delete(entries, t.Peer)
	}
}

// addToAgentLoad adds t to the load of its agent. In the same step it gives back the place that t had
// before, if any.
func (ts *Table) addToAgentLoad(t *Delegation, had *registry.Reservation) {
	t.countsAsWork = true
	ts.agents.AdjustAcceptedCount(t.Agent, t.Peer, 1, had)
}

// Find returns the entry of a delegation.
func (ts *Table) Find(direction client.TaskDirection, peer identity.ID, id wire.MessageID) *Delegation {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.table[delegationKey{direction, peer, id}]
}

// FindByID returns a delegation only by its id: one that belongs to the holder by, or any if by is nil. Of
// several it returns the first in the order of directions.
func (ts *Table) FindByID(by *registry.Credential, id wire.MessageID, directions ...client.TaskDirection) *Delegation {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.findByID(by, id, directions...)
}

// findByID does what FindByID does. The caller holds mu.
func (ts *Table) findByID(by *registry.Credential, id wire.MessageID, directions ...client.TaskDirection) *Delegation {
	for _, direction := range directions {
		for peer := range ts.sizes[direction] {
			if t := ts.table[delegationKey{direction, peer, id}]; t != nil && (by == nil || t.KeyHash == by.KeyHash) {
				return t
			}
		}
	}
	return nil
}

// AddDelegation enters a delegation before its first byte leaves, or before its agent
// gets it. If there is an entry already, it returns that one, and fresh is false.
func (ts *Table) AddDelegation(ctx context.Context, t *Delegation, text string) (entry *Delegation, fresh bool, err error) {
	ts.mu.Lock()
	if old := ts.table[t.key()]; old != nil {
		ts.mu.Unlock()
		return old, false, nil
	}
	if t.Direction == client.Taken {
		if err := ts.taken.Reserve(t.Peer, 1); err != nil {
			ts.mu.Unlock()
			return nil, false, kinds.Errorf(kinds.Overloaded, "delegate: too many delegations are open (%v): wait until some have ended", err)
		}
		t.takesShare = true
	}
	evicted, room := ts.evictIfFull(t.Direction, t.Peer)
	if !room {
		ts.releaseShare(t)
		ts.mu.Unlock()
		return nil, false, kinds.Errorf(kinds.Overloaded, "%d delegations are open, the most there can be: wait until some have ended", MaxDelegations)
	}
	ts.rows++
	t.Row, t.state = ts.rows, client.TaskSent
	ts.noteParent(t)
	ts.insert(t)
	ts.notifyWaiters(t)
	ts.mu.Unlock()
	err = ts.db.Write(ctx, false, func(tx *store.Tx) error {
		if evicted != nil {
			if err := deleteDelegation(tx, evicted.Row); err != nil {
				return err
			}
		}
		ts.mu.Lock()
		row := *t // with the key of the agent that has the name now
		ts.mu.Unlock()
		return insertDelegation(tx, &row, text)
	})
	if err != nil {
		ts.mu.Lock()
		ts.remove(t)
		if evicted != nil && ts.table[evicted.key()] == nil {
			ts.insert(evicted)
		}
		ts.releaseShare(t)
		ts.mu.Unlock()
		return nil, false, ownwords.Errorf("enter the delegation: %w", err)
	}
	return t, true, nil
}

// releaseShare gives back what t takes of its peer's share. The caller holds mu.
func (ts *Table) releaseShare(t *Delegation) {
	if t.takesShare {
		t.takesShare = false
		ts.taken.Release(t.Peer, 1)
	}
}

// evictIfFull drops an entry that is final if the table is full: the oldest of the peer
// that has the most entries, so that nobody's outcomes are pushed out by another's. It keeps a taken one
// whose end is still to be reported to its peer. If it drops one that was abandoned, the peer gets no report.
// It returns the dropped entry, or nil, and whether there is room for another one.
func (ts *Table) evictIfFull(direction client.TaskDirection, peer identity.ID) (evicted *Delegation, hasRoom bool) {
	entries, n := ts.sizes[direction], 0
	for _, of := range entries {
		n += of
	}
	if n < MaxDelegations {
		return nil, true
	}
	entries[peer]++ // which wants one more
	defer func() {
		if entries[peer]--; entries[peer] == 0 {
			delete(entries, peer)
		}
	}()
	for _, t := range ts.table {
		if t.Direction != direction || !t.isOverNow() || t.owed && direction == client.Taken {
			continue
		}
		if evicted == nil || entries[t.Peer] > entries[evicted.Peer] || entries[t.Peer] == entries[evicted.Peer] && t.Created.Before(evicted.Created) {
			evicted = t
		}
	}
	if evicted != nil {
		ts.remove(evicted)
	}
	return evicted, evicted != nil
}

// DescribeTask describes t, without the name of its peer; payloads adds the results. If the disk
// fails, the text is left out.
func (ts *Table) DescribeTask(ctx context.Context, t *Delegation, payloads bool) (*client.Task, error) {
	ts.mu.Lock()
	shown := client.Task{ID: t.ID, Direction: t.Direction, FromAgent: t.FromAgent, ToAgent: t.ToAgent, State: t.state, Over: t.isOverNow(), Began: client.Time{Time: t.Created.Truncate(time.Millisecond)}, Deadline: client.Time{Time: t.Deadline}, Partials: t.partials}
	if t.countsAsWork || t.Direction == client.Taken && t.acked && t.state.IsFinal() {
		shown.Agent = t.Agent
	}
	if away := t.findAgentAwaySince(); !away.IsZero() {
		shown.AgentAwaySince, shown.AgentAwaitedUntil = away, client.Time{Time: t.awaitedUntil()}
	}
	shown.Questions = uint64(t.asked)
	if q := t.findUnanswered(); q != nil && q.isOpen() {
		shown.Question = &client.QuestionBack{ID: q.ID, Since: client.Time{Time: q.since}}
	}
	ts.mu.Unlock()
	err := ts.db.Read(ctx, func(tx *store.Tx) error {
		if err := readDelegationTexts(tx, t.Row, &shown, payloads); err != nil || shown.Question == nil {
			return err
		}
		return readQuestionText(tx, t.Row, shown.Question, payloads)
	})
	return &shown, err
}

// NewNotFoundError returns the error for a ref that names no delegation between two peers.
func NewNotFoundError(ref wire.MessageID) *kinds.Error {
	return kinds.Errorf(kinds.NotFound, "ref: %s names no delegation between these two: it never came, or was long ago", ref)
}

// Status is how far a delegation has come.
type Status struct {
	State client.TaskState
	Acked bool           // an ack is recorded
	EndID wire.MessageID // of the message that ended it, or zero
}

// Status returns the status of t.
func (ts *Table) Status(t *Delegation) Status {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return Status{t.state, t.acked, t.finalID}
}

// ReadAck returns the recorded ack.
func (ts *Table) ReadAck(ctx context.Context, t *Delegation) (wire.Payload, error) {
	return store.ReadValue(ctx, ts.db, func(tx *store.Tx) (ack wire.Payload, err error) {
		err = tx.QueryRow("SELECT ack FROM daemon_task WHERE row = ?", t.Row).Scan((*[]byte)(&ack))
		return ack, err
	})
}

// notifyWaiters wakes the callers of WaitForEnd for t, and the clock if t is due before the clock
// would look. The caller holds mu.
func (ts *Table) notifyWaiters(t *Delegation) {
	if t.isOverNow() {
		ts.releaseShare(t)
	}
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
	if ts.next.IsZero() || t.nextDue().Before(ts.next) {
		ts.wake.Set()
	}
}

// awaitChange returns a channel that is closed at the next change of t. The caller holds Table.mu.
func (t *Delegation) awaitChange() <-chan struct{} {
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// WaitForEnd blocks until t is final, or has more than *partials partial results, or more than
// *questions were asked and the last is open, or ctx ends, whose cause it returns then.
func (ts *Table) WaitForEnd(ctx context.Context, t *Delegation, partials, questions *uint64) error {
	for {
		ts.mu.Lock()
		q := t.findUnanswered()
		if t.isOverNow() || partials != nil && t.partials > *partials || questions != nil && uint64(t.asked) > *questions && q != nil && q.isOpen() {
			ts.mu.Unlock()
			return nil
		}
		if ts.table[t.key()] != t {
			ts.mu.Unlock()
			return NewNotFoundError(t.ID)
		}
		changed := t.awaitChange()
		ts.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// OnInterrupt registers cancel, with which InterruptExchange ends the exchange that carries the
// delegation, until the caller calls done.
func (ts *Table) OnInterrupt(t *Delegation, cancel context.CancelCauseFunc) (done func()) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.abort = append(t.abort, cancel)
	if t.unwanted {
		cancel(ErrParentEnded)
	}
	return func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		t.abort = nil // what is known of one attempt holds for the others
	}
}

// InterruptExchange ends the exchange of a delegation that has no answer yet, which is
// how it is cancelled then, and reports whether there was one.
func (ts *Table) InterruptExchange(t *Delegation, cause error) bool {
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

// AgentsWithOpenWork returns the agents that have open delegations, given or taken.
func (ts *Table) AgentsWithOpenWork() map[string]bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	open := make(map[string]bool)
	for _, t := range ts.table {
		if t.Agent != "" && !t.isOverNow() {
			open[t.Agent] = true
		}
	}
	return open
}

// HandOverToAgent gives the open delegations of a name to the agent that has it now.
func (ts *Table) HandOverToAgent(ctx context.Context, name string, key registry.KeyHash) error {
	ts.mu.Lock()
	var rows []int64
	for _, t := range ts.table {
		if t.Agent == name && t.KeyHash != key && !t.isOverNow() {
			t.KeyHash, rows = key, append(rows, t.Row)
		}
	}
	ts.mu.Unlock()
	if len(rows) == 0 {
		return nil
	}
	return ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error {
		for _, row := range rows {
			if err := updateDelegationKeyHash(tx, row, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// CountRun adds a headless run to a delegation that a peer gave and on which the holder by works; by is nil
// for any agent. It returns how many runs there are with this one, or 0 if there is no such delegation, or
// it has ended. undo takes the run back.
func (ts *Table) CountRun(by *registry.Credential, peer identity.ID, id wire.MessageID) (n int, undo func()) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.table[delegationKey{client.Taken, peer, id}]
	if t == nil || t.state.IsFinal() || by != nil && t.KeyHash != by.KeyHash {
		return 0, func() {}
	}
	t.runs++
	return t.runs, func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		t.runs--
	}
}

// IsOwnedBy reports whether a delegation is the holder's own.
func (ts *Table) IsOwnedBy(t *Delegation, by registry.Credential) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.KeyHash == by.KeyHash
}

// List returns the delegations that match and belong to the holder by, or to anyone if by is nil, in no
// order. match gets the state of each and calls nothing of the table.
func (ts *Table) List(by *registry.Credential, match func(*Delegation, client.TaskState) bool) []*Delegation {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var all []*Delegation
	for _, t := range ts.table {
		if (by == nil || t.KeyHash == by.KeyHash) && match(t, t.state) {
			all = append(all, t)
		}
	}
	return all
}

// ReadTasks returns the beginnings of the texts of delegations. It may wait for the database.
func (ts *Table) ReadTasks(ctx context.Context, of []*Delegation) (tasks []string, err error) {
	if len(of) == 0 {
		return nil, nil
	}
	err = ts.db.Read(ctx, func(tx *store.Tx) error {
		for _, t := range of {
			text, err := readTaskText(tx, t.Row)
			if err != nil {
				return err
			}
			tasks = append(tasks, text)
		}
		return nil
	})
	return tasks, err
}
