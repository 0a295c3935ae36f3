package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
)

// writer puts writes in order and commits them in groups. There is no
// goroutine behind it: the first caller leads, that is, it commits for all that have
// queued up, and then passes the lead to one that came meanwhile.
type writer struct {
	conn *conn // used only by the leader
	sync bool  // whether conn fsyncs its commits; the leader's

	observe        func(Cost)   // nil: nobody does
	observeCommits func(Commit) // nil: nobody does

	mu      sync.Mutex
	queue   []*write // waiting, in order
	led     bool     // somebody leads
	closed  bool
	drained chan struct{} // closed when closed and no longer led
}

// write is one call of Write.
type write struct {
	ctx       context.Context
	requester any // on whose behalf; nil: the daemon's own
	durable   bool
	round     int // how many of its requester's go before it in its commit
	fn        func(*Tx) error
	undo      []func() // as given to [Tx.OnUndo]

	// turn says once that the write is done (false), or once that its caller
	// leads (true).
	turn  chan bool
	leads bool // under writer.mu: turn says true

	// The outcome, the caller's when turn says false.
	err      error
	panicked any
}

// Write runs fn in a transaction and returns when it is committed: with
// durable, when it would survive a loss of power; without, when it would
// survive the death of the process.
//
// If fn fails its changes are undone and Write returns its error as it is,
// unless it is a failure of the file, which gets its remedy. Any other error
// too means that nothing was kept: [errClosed], the context's if it ended
// before fn began (later it has no effect), or a failure of the file or disk,
// which all writes of the same commit get.
//
// fn holds up every other writer, so it should run a few statements and nothing else.
// It may run on another goroutine than the caller's, must not end that
// goroutine, and must not call Write. If it panics, so does Write.
func (db *DB) Write(ctx context.Context, durable bool, fn func(*Tx) error) error {
	w := &write{ctx: ctx, requester: requesterOf(ctx), durable: durable, fn: fn, turn: make(chan bool, 1)}
	lead, err := db.writer.enqueue(w)
	if err != nil {
		return ownwords.Errorf("store: write: %w", err)
	}
	if !lead {
		select {
		case lead = <-w.turn:
		case <-ctx.Done():
			if db.writer.removeQueued(w) {
				return ownwords.Errorf("store: write: not begun: %w", ctx.Err())
			}
			lead = <-w.turn
		}
	}
	if lead {
		db.commitAsLeader(w)
	}
	if w.panicked != nil {
		panic(w.panicked)
	}
	return w.err
}

// enqueue queues w and reports whether its caller leads.
func (q *writer) enqueue(w *write) (lead bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, errClosed
	}
	q.queue = append(q.queue, w)
	lead, q.led = !q.led, true
	w.leads = lead
	return lead, nil
}

// removeQueued removes w from the queue and reports whether it was still there.
func (q *writer) removeQueued(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.queue, w)
	if i < 0 || w.leads {
		return false
	}
	q.queue = slices.Delete(q.queue, i, i+1)
	return true
}

// commitAsLeader commits everything that waits, own among it, and passes the lead on.
func (db *DB) commitAsLeader(own *write) {
	q := &db.writer
	// Callers that are about to write may join: on one processor none could come while
	// the leader computes, and each of a burst's writes would be a commit of its own.
	runtime.Gosched()
	batch := q.pickBatch() // its first is own: the leader is the first in the queue
	var began time.Time
	if q.observeCommits != nil {
		began = time.Now()
	}
	n, err := q.commitBatch(batch)
	if q.observeCommits != nil {
		q.observeCommits(Commit{Writes: n, Took: time.Since(began), Failed: err != nil})
	}
	q.requeue(batch[n:])
	batch = batch[:n]
	if err != nil {
		err = db.explainError("write", err)
	}
	for _, w := range batch {
		if w.err == nil {
			w.err = err
		} else {
			w.err = db.explainFault("write", w.err)
		}
		if w != own {
			w.turn <- false
		}
	}
	db.copyWALIfDue()

	q.mu.Lock()
	defer q.mu.Unlock()
	if q.led = len(q.queue) > 0; q.led {
		next := q.queue[0]
		next.leads = true
		next.turn <- true
	} else if q.closed {
		close(q.drained)
	}
}

// commitBatch runs the first n writes of batch in one transaction. Its error is for
// these n; nothing was kept then.
func (q *writer) commitBatch(batch []*write) (n int, err error) {
	durable := slices.ContainsFunc(batch, func(w *write) bool { return w.durable })
	if err := q.setFsync(durable); err != nil {
		return len(batch), err
	}
	if err := q.conn.execControl("BEGIN IMMEDIATE"); err != nil {
		return len(batch), err
	}
	began := time.Now()
	mixed := slices.ContainsFunc(batch, func(w *write) bool { return w.requester != batch[0].requester })
	for i, w := range batch {
		if i > 0 && w.requester != nil && (w.round >= maxPerPeer || w.round > 0 && time.Since(began) >= longCommit) && (mixed || q.hasOtherRequesters(w.requester)) {
			break
		}
		if err := q.runInSavepoint(w); err != nil {
			q.rollBack(batch)
			return len(batch), err
		}
		n++
	}
	if err := q.conn.execControl("COMMIT"); err != nil {
		q.rollBack(batch)
		return n, err
	}
	return n, nil
}

// rollBack undoes what the writes of a transaction have done, as far as they have run.
func (q *writer) rollBack(batch []*write) {
	q.conn.execControl("ROLLBACK") // SQLite may have done so itself
	for _, w := range slices.Backward(batch) {
		w.callUndoFuncs()
	}
}

// callUndoFuncs calls the functions that were given to [Tx.OnUndo].
func (w *write) callUndoFuncs() {
	for _, undo := range slices.Backward(w.undo) {
		undo()
	}
	w.undo = nil
}

// setFsync sets whether the next commit is fsynced. It runs a statement only if that
// changes.
func (q *writer) setFsync(on bool) error {
	if q.sync == on {
		return nil
	}
	level := "NORMAL"
	if on {
		level = "FULL"
	}
	if _, err := q.conn.ExecContext(context.Background(), "PRAGMA synchronous = "+level); err != nil {
		return err
	}
	q.sync = on
	return nil
}

// runInSavepoint runs one write in its savepoint. Its own failure goes to w.err. The
// error that run returns says that the transaction is lost: SQLite ends it by
// itself when the disk is full or fails, and the savepoint is then unknown.
func (q *writer) runInSavepoint(w *write) error {
	if err := w.ctx.Err(); err != nil {
		w.err = ownwords.Errorf("store: write: not begun: %w", err)
		return nil
	}
	if err := q.conn.execControl("SAVEPOINT one"); err != nil {
		return err
	}
	if w.err = w.callFunc(q.conn, q.observe); w.err != nil {
		w.callUndoFuncs()
		if err := q.conn.execControl("ROLLBACK TO one"); err != nil {
			return errors.Join(w.err, err)
		}
	}
	return q.conn.execControl("RELEASE one")
}

// callFunc calls fn. A panic is kept for the goroutine to which it belongs: here
// it would leave all other writers waiting for ever.
func (w *write) callFunc(c *conn, observe func(Cost)) (err error) {
	tx := &Tx{conn: c, w: w}
	if observe != nil {
		tx.cost = &Cost{Requester: w.requester}
		defer func() { observe(*tx.cost) }()
	}
	defer func() {
		if p := recover(); p != nil {
			w.panicked = fmt.Sprintf("%v\n\n%s", p, debug.Stack())
			err = ownwords.New("store: write: panic")
		}
		tx.invalidate()
	}()
	return w.fn(tx)
}

// stopAccepting refuses further writes and waits for those that were accepted.
func (q *writer) stopAccepting() {
	q.mu.Lock()
	q.closed = true
	led := q.led
	q.mu.Unlock()
	if led {
		<-q.drained
	}
}
