package openintent

import (
	"context"
	"slices"

	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

// tx is one write: a transaction of the store, and the feed entries that it publishes.
type tx struct {
	*store.Tx
	e      *Engine
	now    chain.Time
	first  int64        // the first number that it may give out
	last   int64        // the last that it gave out, 0 for none
	out    []feedEntry  // to publish
	buried bool         // it leaves something for the sweep to remove
	wake   []*pace.Bell // to ring

	// If the store does not keep the write, these put the world back.
	loading  bool             // the world is being filled: nothing is put back
	restores []func()         // each puts back a value that [keep] or [keepEntry] has saved
	homes    map[string]bool  // the daemons whose accounts have changed
	cached   []*message       // messages that were put into memory
	alarmed  []*channelRecord // channels whose alarms were set
}

// runTransaction runs fn in a transaction. fn changes the store before the world. It changes the
// world with the world locked, by [set], [put] and [drop], or after [keep] and [keepEntry].
func (e *Engine) runTransaction(ctx context.Context, durable bool, fn func(*tx) error) error {
	finishLongBodyTurn(ctx)
	t := &tx{e: e}
	kept := false
	defer func() { t.publishIfCommitted(kept) }() // also if fn panics
	err := e.db.Write(ctx, durable, func(stx *store.Tx) error {
		t.Tx, t.now, t.first = stx, now(), e.feed.next
		t.OnUndo(t.undo)
		if e.cfg.Inside != nil {
			return e.cfg.Inside(func() error { return fn(t) })
		}
		return fn(t)
	})
	kept = err == nil
	return err
}

// execute runs a statement whose result nobody needs.
func (t *tx) execute(query string, args ...any) error {
	_, err := t.Tx.Exec(query, args...)
	return err
}

// publishIfCommitted publishes the entries of a write that was kept, and wakes those who wait
// for them.
func (t *tx) publishIfCommitted(kept bool) {
	if !kept {
		t.out = nil
	}
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	if t.last > 0 {
		t.e.publishEntries(t.first, t.last, t.out)
	}
	for _, b := range t.wake {
		b.Ring()
	}
	if t.buried {
		t.e.sweep.Set()
	}
}

// withReadLock runs fn with the world locked for reading, and unlocks it also if fn panics.
// fn must not block.
func (e *Engine) withReadLock(fn func()) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	fn()
}

// withLock runs fn with the world locked for changes, and unlocks it also if fn panics.
// fn must not block.
func (e *Engine) withLock(fn func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fn()
}

// keep saves *p, a value of the world, before a write changes it. If the store does not keep the
// write, *p gets that value again before the next write begins. Slices that are changed in place
// are cloned first.
func keep[T any](t *tx, p *T) {
	before := *p
	t.addRestore(func() { *p = before })
}

// keepEntry is [keep] for the entry of a map.
func keepEntry[K comparable, V any](t *tx, m map[K]V, key K) {
	before, had := m[key]
	t.addRestore(func() {
		if had {
			m[key] = before
		} else {
			delete(m, key)
		}
	})
}

// set changes a value of the world, and put and drop an entry of a map, which are kept first.
func set[T any](t *tx, p *T, v T) {
	keep(t, p)
	*p = v
}

func put[K comparable, V any](t *tx, m map[K]V, key K, v V) {
	keepEntry(t, m, key)
	m[key] = v
}

func drop[K comparable, V any](t *tx, m map[K]V, key K) {
	keepEntry(t, m, key)
	delete(m, key)
}

// addRestore adds a function that puts back a value.
func (t *tx) addRestore(restore func()) {
	if t.loading {
		return
	}
	if t.restores = append(t.restores, restore); t.e.stepped != nil {
		t.e.stepped()
	}
}

// undo puts the world back to what it was before the write. The store calls it if it does not
// keep the write. It adjusts accounts, recent messages and alarms last.
func (t *tx) undo() {
	t.e.withLock(func() {
		for _, restore := range slices.Backward(t.restores) {
			restore()
		}
		for home := range t.homes {
			t.e.syncGuestAccounts(home)
		}
		for _, m := range slices.Backward(t.cached) {
			t.e.uncacheMessage(m)
		}
		for _, ch := range t.alarmed {
			t.e.alarms.set(ch)
		}
	})
}

// syncAccounts makes the accounts of another daemon hold what the world says.
func (t *tx) syncAccounts(home string) {
	if home == "" {
		return
	}
	if t.homes == nil {
		t.homes = make(map[string]bool)
	}
	t.homes[home] = true
	t.e.syncGuestAccounts(home)
}

// setAlarm sets the channel's alarm. The world is locked.
func (t *tx) setAlarm(ch *channelRecord) {
	t.alarmed = append(t.alarmed, ch)
	t.e.alarms.set(ch)
}

// nextFeedNumber gives out the next number of the feed. The numbers of a write that is lost are
// given out again, as they are when the daemon restarts: no reader of the feed has seen them.
func (t *tx) nextFeedNumber() int64 {
	keep(t, &t.e.feed.next)
	set(t, &t.last, t.e.feed.next)
	t.e.feed.next++
	return t.last
}

// nextRowNumber gives out the next row number.
func (t *tx) nextRowNumber() int64 {
	t.e.rows++
	return t.e.rows
}
