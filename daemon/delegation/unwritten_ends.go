package delegation

import (
	"context"

	"github.com/acpd/acpd/store"
)

// maxUnwrittenEnds bounds the ends in one write, which then takes a few milliseconds.
const maxUnwrittenEnds = 256

// unwrittenEnd is an end of a delegation that the clock has brought about and that is not on disk yet.
// Another goroutine writes it, because the clock does not wait for the disk, and tries again until it is
// written. There are no more such ends than delegations.
type unwrittenEnd struct {
	task   *Delegation
	ending Ending // as applyEnd gets it if only the disk was waited for
	drop   bool   // delete the entry instead
}

// queueUnwrittenEnd queues an end to be written. The caller holds mu.
func (ts *Table) queueUnwrittenEnd(e unwrittenEnd) {
	ts.unwrittenEnds = append(ts.unwrittenEnds, e)
	ts.unwrittenAdded.Set()
}

// saveUnwrittenEnds writes the ends that wait, and applies those that only had to be written.
func (ts *Table) saveUnwrittenEnds(ctx context.Context) error {
	for {
		ts.mu.Lock()
		some := ts.unwrittenEnds[:min(len(ts.unwrittenEnds), maxUnwrittenEnds)]
		ts.mu.Unlock()
		if len(some) == 0 {
			return nil
		}
		err := ts.db.Write(ctx, true, func(tx *store.Tx) error {
			for _, e := range some {
				write := func() error { return updateDelegationEnd(tx, e.task.Row, e.ending) }
				if e.drop {
					write = func() error { return deleteDelegation(tx, e.task.Row) }
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
		for _, e := range some {
			if !e.drop && !e.task.state.IsFinal() {
				e.task.ending = false
				ts.applyEnd(e.task, e.ending)
			}
		}
		if ts.unwrittenEnds = ts.unwrittenEnds[len(some):]; len(ts.unwrittenEnds) == 0 {
			ts.unwrittenEnds = nil
		}
		ts.mu.Unlock()
	}
}
