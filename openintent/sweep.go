package openintent

import (
	"context"
	"time"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

// Nothing large is removed in one write, which all others would wait for. What is gone
// is marked as gone, in one row, or follows from what is; its rows leave the store in
// slices.
const (
	sliceRows  = 48        // of one slice, with which a write stays within 64
	sliceBytes = 512 << 10 // of their texts
)

// slice counts what one write removes.
type slice struct {
	rows, bytes int
	freed       map[string]int64 // of these bytes, and of receipts, by whose they were
}

func (s *slice) full() bool { return s.rows >= sliceRows || s.bytes >= sliceBytes }

// doomed is a message that may be removed.
type doomed struct {
	seq, number int64
	sender      string
	receipts    bool
	bytes       int
	kept        bool // for now
}

// doomed reads the next messages of a channel after one, and up to another. Pinned
// responses and requests that may still be answered are kept.
func doomedOf(stx *store.Tx, channel, after, upTo int64, at chain.Time) (all []doomed, err error) {
	err = stx.Each(`SELECT seq, number, sender, receipts, octet_length(head), lead = 1 AND at > ?4 OR kind = 'request' AND answered = 0 AND deadline > ?5
		FROM openintent_message WHERE channel = ?1 AND number > ?2 AND number <= ?3 ORDER BY number LIMIT ?6`, func(scan func(...any) error) error {
		var d doomed
		err := scan(&d.seq, &d.number, &d.sender, &d.receipts, &d.bytes, &d.kept)
		all = append(all, d)
		return err
	}, channel, after, upTo, int64(at.Add(-pinTime)), int64(at), sliceRows)
	return all, err
}

// remove removes a message and its receipts, and reports whether it is gone: it may have
// more receipts than the slice has room for, or be too large for what is left of it.
func (s *slice) remove(stx *store.Tx, d doomed) (gone bool, err error) {
	if s.full() || s.bytes > 0 && s.bytes+d.bytes > sliceBytes {
		return false, nil
	}
	if s.freed == nil {
		s.freed = make(map[string]int64)
	}
	if d.receipts {
		if err := stx.Each("SELECT agent FROM openintent_receipt WHERE message = ? ORDER BY agent LIMIT ?", func(scan func(...any) error) error {
			var agent string
			err := scan(&agent)
			s.freed[agent] += int64(len(agent)) + receiptBytes
			return err
		}, d.seq, sliceRows-s.rows); err != nil {
			return false, err
		}
		r, err := stx.Exec("DELETE FROM openintent_receipt WHERE message = ?1 AND agent IN (SELECT agent FROM openintent_receipt WHERE message = ?1 ORDER BY agent LIMIT ?2)", d.seq, sliceRows-s.rows)
		if err != nil {
			return false, err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return false, err
		}
		if s.rows += int(n); s.rows >= sliceRows {
			return false, nil
		}
	}
	s.rows++
	s.bytes += d.bytes
	s.freed[d.sender] += int64(d.bytes)
	_, err = stx.Exec("DELETE FROM openintent_message WHERE seq = ?", d.seq)
	return true, err
}

// evictStep is how often a channel's sends look for what to remove; in between it is
// there and nobody sees it. Each looks at thrice as many messages as came since.
const evictStep = 16

// evict removes some of what max_messages has evicted before the channel's message
// number last, but for what is pinned and for requests that may still be answered: these
// it comes back to. It does a slice at most, and is then behind, so that the next write
// of the channel goes on.
func (t *tx) evict(ch *channel, last int64) error {
	floor := last - ch.opt.max
	if floor <= 0 || !ch.behind && last%min(evictStep, ch.opt.max) != 0 {
		return nil
	}
	from, passed, behind := ch.evicted, ch.passed, false
	if from >= floor {
		if !passed {
			return nil
		}
		from, passed = 0, false
	}
	all, err := doomedOf(t.Tx, ch.row, from, floor, t.now)
	if err != nil {
		return err
	}
	var s slice
	for _, d := range all {
		if d.kept {
			passed = true
		} else if gone, err := s.remove(t.Tx, d); err != nil {
			return err
		} else if !gone {
			behind = true
			break
		}
		from = d.number
	}
	if !behind && len(all) < sliceRows {
		from = floor
	}
	behind = behind || s.rows > evictStep
	if err := t.free(ch.in, ch.doc.Home, &s); err != nil {
		return err
	}
	change := func(evicted int64, passed, behind bool) func() {
		return func() { ch.evicted, ch.passed, ch.behind = evicted, passed, behind }
	}
	t.apply(step{change(from, passed, behind), change(ch.evicted, ch.passed, ch.behind)})
	return nil
}

// runSweeps removes channels that are gone until ctx ends, a slice in a write.
func (e *Engine) runSweeps(ctx context.Context) {
	again(ctx, e.sweep, func() time.Duration {
		more, err := true, error(nil)
		for more && err == nil && ctx.Err() == nil {
			more, err = e.sweepSome(ctx)
		}
		if err == nil {
			return idle
		}
		if ctx.Err() == nil {
			e.cfg.Log.Error("openintent: removing a channel failed", "error", err)
		}
		return retryAlarm
	})
}

// behalf returns a context for what a daemon's agents have caused: it takes their turns.
func behalf(ctx context.Context, home string) context.Context {
	if home == "" {
		return ctx
	}
	return store.For(ctx, peerOf(home))
}

// sweepSome lets an agent leave that has not left, or removes a slice of a channel that is
// gone, and reports whether there was something.
func (e *Engine) sweepSome(ctx context.Context) (more bool, err error) {
	var next grave
	leaver := ""
	e.rlocked(func() {
		if more = len(e.graves) > 0; more {
			next = e.graves[0]
		}
		for leaver = range e.leavers {
			break
		}
	})
	if leaver != "" {
		return true, e.finishLeaving(ctx, leaver)
	}
	if !more {
		return false, nil
	}
	err = e.write(behalf(ctx, next.home), false, func(t *tx) error {
		if len(e.graves) == 0 || e.graves[0] != next {
			return nil // it is not gone after all
		}
		row := next.row
		all, err := doomedOf(t.Tx, row, 0, 1<<62, t.now)
		if err != nil {
			return err
		}
		var s slice
		done := len(all) < sliceRows
		for _, d := range all {
			gone, err := s.remove(t.Tx, d)
			if err != nil {
				return err
			}
			if !gone {
				done = false
				break
			}
		}
		in, err := t.intentOf(row)
		if err != nil {
			return err
		}
		if err := t.free(in, next.home, &s); err != nil || !done {
			return err
		}
		if err := t.dropChannel(row); err != nil {
			return err
		}
		set(t, &e.graves, e.graves[1:])
		return nil
	})
	return true, err
}
