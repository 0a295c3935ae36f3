package openintent

import (
	"context"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

// tx is one write: a transaction of the store, and the feed entries that it publishes.
type tx struct {
	*store.Tx
	e      *Engine
	now    chain.Time
	first  int64       // the first number that it may give out
	last   int64       // the last that it gave out, 0 for none
	out    []feedEntry // to publish
	buried bool        // it leaves something for the sweep to remove
	wake   []*bell     // to ring
}

// runTransaction runs fn in a transaction. fn changes the store before the world, and the world
// through [tx.applyWorldSteps] alone.
func (e *Engine) runTransaction(ctx context.Context, durable bool, fn func(*tx) error) error {
	finishLongBodyTurn(ctx)
	t := &tx{e: e}
	kept := false
	defer func() { t.publishIfCommitted(kept) }() // also if fn panics
	err := e.db.Write(ctx, durable, func(stx *store.Tx) error {
		t.Tx, t.now, t.first = stx, now(), e.feed.next
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
		b.ring()
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

// worldStep is one change of the world. do changes something, or panics before it has changed
// anything. undo changes it back. Either may be nil. A step that undoes what a later step may
// have done in part stands before that step.
type worldStep struct{ do, undo func() }

// applyWorldSteps takes steps that change the world. If the store does not keep the write, it
// undoes them, the last step first, before another write begins. Later calls of the same write
// are undone before earlier ones. If a step panics, the steps before it are undone. All steps
// run with the world locked.
func (t *tx) applyWorldSteps(steps ...worldStep) {
	done := 0
	t.OnUndo(func() {
		t.e.withLock(func() {
			for ; done > 0; done-- {
				if undo := steps[done-1].undo; undo != nil {
					undo()
				}
			}
		})
	})
	t.e.withLock(func() {
		for _, s := range steps {
			if s.do != nil {
				s.do()
			}
			if done++; t.e.stepped != nil {
				t.e.stepped()
			}
		}
	})
}

// setWorldValue sets *p, which is part of the world, to v.
func setWorldValue[T any](t *tx, p *T, v T) {
	old := *p
	t.applyWorldSteps(worldStep{func() { *p = v }, func() { *p = old }})
}

// nextFeedNumber gives out the next number of the feed. The numbers of a write that is lost are
// given out again, as they are when the daemon restarts: no reader of the feed has seen them.
func (t *tx) nextFeedNumber() int64 {
	if t.last == 0 {
		t.OnUndo(func() { t.e.feed.next, t.last = t.first, 0 })
	}
	t.last = t.e.feed.next
	t.e.feed.next++
	return t.last
}

// nextRowNumber gives out the next row number.
func (t *tx) nextRowNumber() int64 {
	t.e.rows++
	return t.e.rows
}
