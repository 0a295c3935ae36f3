package delegation

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/store"
)

// Pauses between attempts to write; they double. The log is told at the first
// failure and when it is over.
const (
	firstWrite   = time.Second
	SlowestWrite = time.Minute
	maxLateEnds  = 256 // in one write, which then takes a few milliseconds
)

// lateEnds are the ends of tasks that the clock has brought about and the disk does
// not know yet: they are written beside the clock, which waits for no disk, and
// again until they are there. There are no more of them than delegations.
type lateEnds struct {
	log  *slog.Logger
	wake pace.Signal // holds one where waiting is not empty

	mu      sync.Mutex
	waiting []lateEnd
}

// lateEnd is one of them.
type lateEnd struct {
	task   *Delegation
	ending Ending // as applyEnd gets it if only the disk was waited for
	drop   bool   // instead: the entry goes
}

func newLateEnds(log *slog.Logger) *lateEnds {
	return &lateEnds{log: log, wake: pace.NewSignal()}
}

func (l *lateEnds) add(r lateEnd) {
	l.mu.Lock()
	l.waiting = append(l.waiting, r)
	l.mu.Unlock()
	l.wake.Set()
}

// run writes until ctx ends, and then once more.
func (l *lateEnds) run(ctx context.Context, ts *Table) {
	failing := false
	for pause := firstWrite; ; {
		select {
		case <-ctx.Done():
		case <-l.wake:
		}
		err := l.save(context.WithoutCancel(ctx), ts)
		switch {
		case err == nil && failing:
			l.log.Info("delegations whose time was over are on disk again")
			failing, pause = false, firstWrite
		case err != nil && !failing:
			l.log.Error("the ends of delegations are not on disk, and will be tried again", "err", err)
			failing = true
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue
		}
		_ = pace.Sleep(ctx, pause)
		pause = min(2*pause, SlowestWrite)
		l.wake.Set()
	}
}

// save writes what waits, and tells the table of ends that only had to be written.
func (l *lateEnds) save(ctx context.Context, ts *Table) error {
	for {
		l.mu.Lock()
		some := l.waiting[:min(len(l.waiting), maxLateEnds)]
		l.mu.Unlock()
		if len(some) == 0 {
			return nil
		}
		err := ts.db.Write(ctx, true, func(tx *store.Tx) error {
			for _, r := range some {
				write := func() error { return updateEnd(tx, r.task.Row, r.ending) }
				if r.drop {
					write = func() error { return deleteDelegation(tx, r.task.Row) }
				}
				if err := write(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		ts.mu.Lock()
		for _, r := range some {
			if !r.drop && !r.task.state.IsFinal() {
				r.task.ending = false
				ts.applyEnd(r.task, r.ending)
			}
		}
		ts.mu.Unlock()
		l.mu.Lock()
		if l.waiting = l.waiting[len(some):]; len(l.waiting) == 0 {
			l.waiting = nil
		}
		l.mu.Unlock()
	}
}
