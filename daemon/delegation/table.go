// Package delegation holds the table of delegations, given and taken: their states,
// their deadlines and the agents that work on them.
//
// What decides is in memory, and all of it is on disk. Each way from one state to the
// next is written before anybody sees it, except that a deadline passes when it passes.
// Of several ends of one delegation the first wins.
//
// The table may call the registry while it is locked, and the registry never the table.
//
// It leaves to others how a delegation travels, and what its agent and its peer are told
// (package daemon).
package delegation

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
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// Bounds of the two task tables (protocol, section 4).
const (
	MaxDelegations = 1024           // given, and as many taken
	keptAfter      = time.Hour      // an entry outlives its deadline by this
	keptWithout    = 24 * time.Hour // and lives this long without one
	orphanedFor    = registry.NameKeptFor
	firstReport    = 5 * time.Second // between attempts to report a lost task; doubles
	slowestReport  = 10 * time.Minute
)

// Table is the table of delegations, in memory what decides and on disk all of it.
// Every transition is written before anybody sees it.
type Table struct {
	db     *store.DB
	agents *registry.Registry
	taken  *budget.Account // delegations that are not final
	wake   pace.Signal     // something is due earlier than before
	late   *lateEnds

	mu    sync.Mutex // guards what follows and the fields of tasks named above
	table map[delegationKey]*Delegation
	sizes map[client.TaskDirection]map[identity.ID]int // entries of the table, by direction and peer
	rows  int64                                        // the last row that was begun: none is used twice
	next  time.Time                                    // when run looks again; zero: when it is woken
}

type delegationKey struct {
	direction client.TaskDirection
	peer      identity.ID
	id        wire.MessageID
}

func (t *Delegation) key() delegationKey { return delegationKey{t.Direction, t.Peer, t.ID} }

// Open reads the table as the last run of the daemon left it.
func Open(ctx context.Context, db *store.DB, a *registry.Registry, book *budget.Book, log *slog.Logger) (*Table, error) {
	ts := &Table{
		db: db, agents: a, taken: book.Open(budget.Delegations), wake: pace.NewSignal(), late: newLateEnds(log),
		table: make(map[delegationKey]*Delegation), sizes: map[client.TaskDirection]map[identity.ID]int{client.Given: {}, client.Taken: {}},
	}
	var all []*Delegation
	err := db.Read(ctx, func(tx *store.Tx) (err error) {
		all, err = readDelegations(tx)
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
		if t.Direction == client.Taken && !t.isFinal() {
			t.aloneSince, t.shared = now, true
			ts.taken.Add(t.Peer, 1)
			ts.countAsWork(t, nil)
		}
		if t.Agent != "" && !t.isFinal() {
			a.KeepName(t.Agent, t.KeyHash, now)
		}
		t.retry, t.pause = now, firstReport
		ts.insert(t)
		ts.rows = max(ts.rows, t.Row)
	}
	return ts, nil
}

// insert enters t in the table, and remove takes it out, if it is there. The caller holds mu.
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

// countAsWork makes t count as work of its agent, from now on without the place that it had, if any.
func (ts *Table) countAsWork(t *Delegation, had *registry.Reservation) {
	t.counted = true
	ts.agents.AddDelegations(t.Agent, t.Peer, 1, had)
}

// Find returns the entry of a delegation.
func (ts *Table) Find(direction client.TaskDirection, peer identity.ID, id wire.MessageID) *Delegation {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.table[delegationKey{direction, peer, id}]
}

// FindByID returns a delegation by its id alone, of several the first in the order of
// directions: one that is the holder's own, nil for any.
func (ts *Table) FindByID(by *registry.Credential, id wire.MessageID, directions ...client.TaskDirection) *Delegation {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, direction := range directions {
		for key, t := range ts.table {
			if key.id == id && key.direction == direction && (by == nil || t.KeyHash == by.KeyHash) {
				return t
			}
		}
	}
	return nil
}

// Begin enters a delegation before its first byte leaves, or before its agent
// hears of it. If there is an entry already, that is returned and fresh is false.
func (ts *Table) Begin(ctx context.Context, t *Delegation, text string) (entry *Delegation, fresh bool, err error) {
	ts.mu.Lock()
	if old := ts.table[t.key()]; old != nil {
		ts.mu.Unlock()
		return old, false, nil
	}
	if t.Direction == client.Taken {
		if err := ts.taken.Take(t.Peer, 1); err != nil {
			ts.mu.Unlock()
			return nil, false, kinds.Errorf(kinds.Overloaded, "delegate: too many delegations are open (%v): wait until some have ended", err)
		}
		t.shared = true
	}
	evicted, room := ts.makeRoom(t.Direction, t.Peer)
	if !room {
		ts.giveBackShare(t)
		ts.mu.Unlock()
		return nil, false, kinds.Errorf(kinds.Overloaded, "%d delegations are open, the most there can be: wait until some have ended", MaxDelegations)
	}
	ts.rows++
	t.Row, t.state = ts.rows, client.TaskSent
	ts.insert(t)
	ts.announceChange(t)
	ts.mu.Unlock()
	err = ts.db.Write(ctx, false, func(tx *store.Tx) error {
		if evicted != nil {
			if err := deleteDelegation(tx, evicted.Row); err != nil {
				return err
			}
		}
		return insertDelegation(tx, t, text)
	})
	if err != nil {
		ts.mu.Lock()
		ts.remove(t)
		if evicted != nil && ts.table[evicted.key()] == nil {
			ts.insert(evicted)
		}
		ts.giveBackShare(t)
		ts.mu.Unlock()
		return nil, false, fmt.Errorf("enter the delegation: %w", err)
	}
	return t, true, nil
}

// giveBackShare gives back what t takes of its peer's share. The caller holds mu.
func (ts *Table) giveBackShare(t *Delegation) {
	if t.shared {
		t.shared = false
		ts.taken.Give(t.Peer, 1)
	}
}

// makeRoom drops an entry that is final if the table is full: the oldest of the peer
// that has the most entries, so that nobody's outcomes are pushed out by another's.
func (ts *Table) makeRoom(direction client.TaskDirection, peer identity.ID) (evicted *Delegation, ok bool) {
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
		if t.Direction != direction || !t.isFinal() || t.owed {
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

// Show describes t, without the name of its peer; payloads adds the results. If the disk
// fails, the text is left out.
func (ts *Table) Show(ctx context.Context, t *Delegation, payloads bool) (*client.Task, error) {
	shown := ts.showState(t)
	err := ts.db.Read(ctx, func(tx *store.Tx) error { return readTexts(tx, t.Row, &shown, payloads) })
	return &shown, err
}

// showState describes t without what is on disk only.
func (ts *Table) showState(t *Delegation) client.Task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	shown := client.Task{ID: t.ID, Direction: t.Direction, State: t.state, Deadline: client.Time{Time: t.Deadline}, Partials: t.partials}
	if t.counted {
		shown.Agent = t.Agent
	}
	return shown
}

// NotFound is the answer to a ref that names no delegation between two peers.
func NotFound(ref wire.MessageID) *kinds.Error {
	return kinds.Errorf(kinds.NotFound, "ref: %s names no delegation between these two: it never came, or was long ago", ref)
}

// FinalID returns the id of the message that ended t, zero if none did.
func (ts *Table) FinalID(t *Delegation) wire.MessageID {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.finalID
}

// EndedBy reports whether id is the message that ended t.
func (ts *Table) EndedBy(t *Delegation, id wire.MessageID) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.state.IsFinal() && t.finalID == id
}

// State returns the state and whether an ack is recorded.
func (ts *Table) State(t *Delegation) (state client.TaskState, acked bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.state, t.acked
}

// ReadAck returns the recorded ack.
func (ts *Table) ReadAck(ctx context.Context, t *Delegation) (ack wire.Payload, err error) {
	err = ts.db.Read(ctx, func(tx *store.Tx) error {
		b, err := readAck(tx, t.Row)
		ack = b
		return err
	})
	return ack, err
}

// announceChange wakes who waits for t, and the clock if t is due before it would look.
// The caller holds mu.
func (ts *Table) announceChange(t *Delegation) {
	if t.isFinal() {
		ts.giveBackShare(t)
	}
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
	if ts.next.IsZero() || t.nextDue().Before(ts.next) {
		ts.wake.Set()
	}
}

// IsAwaited reports whether a caller of wait waits for t.
func (ts *Table) IsAwaited(t *Delegation) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.changed != nil
}

// Wait blocks until t is final, or has more than *after partial results, or ctx ends,
// whose cause it returns then.
func (ts *Table) Wait(ctx context.Context, t *Delegation, after *uint64) error {
	for {
		ts.mu.Lock()
		if t.isFinal() || after != nil && t.partials > *after {
			ts.mu.Unlock()
			return nil
		}
		if ts.table[t.key()] != t {
			ts.mu.Unlock()
			return NotFound(t.ID)
		}
		if t.changed == nil {
			t.changed = make(chan struct{})
		}
		changed := t.changed
		ts.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// OnInterrupt lets interrupt end the exchange that carries the delegation, until
// done is called.
func (ts *Table) OnInterrupt(t *Delegation, cancel context.CancelCauseFunc) (done func()) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.abort = append(t.abort, cancel)
	return func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		t.abort = nil // what is known of one attempt holds for the others
	}
}

// Interrupt ends the exchange of a delegation that has no answer yet, which is
// how it is cancelled then, and reports whether there was one.
func (ts *Table) Interrupt(t *Delegation, cause error) bool {
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

// OpenAgents returns the agents that have open delegations, given or taken.
func (ts *Table) OpenAgents() map[string]bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	open := make(map[string]bool)
	for _, t := range ts.table {
		if t.Agent != "" && !t.isFinal() {
			open[t.Agent] = true
		}
	}
	return open
}

// HandOver gives the open delegations of a name to the agent that has it now.
func (ts *Table) HandOver(ctx context.Context, name string, key registry.KeyHash) error {
	ts.mu.Lock()
	var rows []int64
	for _, t := range ts.table {
		if t.Agent == name && t.KeyHash != key && !t.isFinal() {
			t.KeyHash, rows = key, append(rows, t.Row)
		}
	}
	ts.mu.Unlock()
	if len(rows) == 0 {
		return nil
	}
	return ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error {
		for _, row := range rows {
			if err := updateKeyHash(tx, row, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// IsOwn reports whether a delegation is the holder's own.
func (ts *Table) IsOwn(t *Delegation, by registry.Credential) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.KeyHash == by.KeyHash
}

// List returns the tasks that are the holder's own, nil for all, and match, in no
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
