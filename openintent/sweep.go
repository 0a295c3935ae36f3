package openintent

import (
	"context"
	"time"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

// Nothing large is removed in one write, because all other writes would wait for it. One row
// marks a channel as gone, and max_messages says which messages are; their rows leave the store
// in slices.
const (
	sliceRows  = 48        // of one slice, with which a write stays within 64
	sliceBytes = 512 << 10 // of their texts
)

// removalSlice has the numbers of what one write removes.
type removalSlice struct {
	rows, bytes int
	freed       map[string]int64 // bytes of messages and receipts, by their sender or reader
}

// isFull reports whether the write may remove no more.
func (s *removalSlice) isFull() bool { return s.rows >= sliceRows || s.bytes >= sliceBytes }

// doomedMessage is a message that may be removed.
type doomedMessage struct {
	seq, number int64
	sender      string
	receipts    bool
	bytes       int
	kept        bool // for now
}

// readDoomedMessages reads the next messages of a channel after one number and up to another. It
// marks pinned responses, and requests that may still be answered, as kept.
func readDoomedMessages(stx *store.Tx, channel, after, upTo int64, at chain.Time) (all []doomedMessage, err error) {
	err = stx.EachRow(`SELECT seq, number, sender, receipts, octet_length(head), lead = 1 AND at > ?4 OR kind = 'request' AND answered = 0 AND deadline > ?5
		FROM openintent_message WHERE channel = ?1 AND number > ?2 AND number <= ?3 ORDER BY number LIMIT ?6`, func(scan func(...any) error) error {
		var d doomedMessage
		err := scan(&d.seq, &d.number, &d.sender, &d.receipts, &d.bytes, &d.kept)
		all = append(all, d)
		return err
	}, channel, after, upTo, int64(at.Add(-pinTime)), int64(at), sliceRows)
	return all, err
}

// removeMessage removes a message and its receipts. It reports false if the slice has no room for
// the message or for all of its receipts.
func (s *removalSlice) removeMessage(stx *store.Tx, d doomedMessage) (gone bool, err error) {
	if s.isFull() || s.bytes > 0 && s.bytes+d.bytes > sliceBytes {
		return false, nil
	}
	if s.freed == nil {
		s.freed = make(map[string]int64)
	}
	if d.receipts {
		if err := stx.EachRow("SELECT agent FROM openintent_receipt WHERE message = ? ORDER BY agent LIMIT ?", func(scan func(...any) error) error {
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

// evictStep is the number of sends of a channel after which one looks for messages to remove.
// Nobody sees these meanwhile. Each looks at thrice as many messages as came since.
const evictStep = 16

// evictMessages removes some of the messages that max_messages has evicted before the channel's
// message number last. It passes over pinned messages and requests that may still be answered,
// and comes back to them. It removes a slice at most; if that is not all, the channel is behind,
// and its next write continues.
func (t *tx) evictMessages(ch *channelRecord, last int64) error {
	floor := last - ch.opt.MaxMessages
	if floor <= 0 || !ch.behind && last%min(evictStep, ch.opt.MaxMessages) != 0 {
		return nil
	}
	from, passed, behind := ch.evicted, ch.passed, false
	if from >= floor {
		if !passed {
			return nil
		}
		from, passed = 0, false
	}
	all, err := readDoomedMessages(t.Tx, ch.row, from, floor, t.now)
	if err != nil {
		return err
	}
	var s removalSlice
	for _, d := range all {
		if d.kept {
			passed = true
		} else if gone, err := s.removeMessage(t.Tx, d); err != nil {
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
	if err := t.subtractFreedBytes(ch.in, ch.doc.Home, &s); err != nil {
		return err
	}
	t.e.withLock(func() { set(t, &ch.eviction, eviction{from, passed, behind}) })
	return nil
}

// runSweeps removes deleted channels, a slice in a write, and lets agents leave, until ctx ends.
func (e *Engine) runSweeps(ctx context.Context) {
	runRepeatedly(ctx, e.sweep, func() time.Duration {
		more, err := true, error(nil)
		for more && err == nil && ctx.Err() == nil {
			more, err = e.sweepOnce(ctx)
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

// contextForHome returns a context for work that a daemon's agents have caused. The store
// charges that daemon.
func contextForHome(ctx context.Context, home string) context.Context {
	if home == "" {
		return ctx
	}
	return store.WithRequester(ctx, peerAccountKey(home))
}

// sweepOnce lets one agent leave, or removes a slice of a deleted channel. It reports whether
// there was anything to do.
func (e *Engine) sweepOnce(ctx context.Context) (more bool, err error) {
	var next grave
	leaver := ""
	e.withReadLock(func() {
		if more = len(e.graves) > 0; more {
			next = e.graves[0]
		}
		for leaver = range e.leavers {
			break
		}
	})
	if leaver != "" {
		return true, e.leaveAllChannels(ctx, leaver)
	}
	if !more {
		return false, nil
	}
	err = e.runTransaction(contextForHome(ctx, next.home), false, func(t *tx) error {
		if len(e.graves) == 0 || e.graves[0] != next {
			return nil // it is not gone after all
		}
		row := next.row
		all, err := readDoomedMessages(t.Tx, row, 0, 1<<62, t.now)
		if err != nil {
			return err
		}
		var s removalSlice
		done := len(all) < sliceRows
		for _, d := range all {
			gone, err := s.removeMessage(t.Tx, d)
			if err != nil {
				return err
			}
			if !gone {
				done = false
				break
			}
		}
		in, err := t.findIntentOfChannel(row)
		if err != nil {
			return err
		}
		if err := t.subtractFreedBytes(in, next.home, &s); err != nil || !done {
			return err
		}
		if err := t.execute("DELETE FROM openintent_channel WHERE row = ?", row); err != nil { // and its grave
			return err
		}
		e.withLock(func() { set(t, &e.graves, e.graves[1:]) })
		return nil
	})
	return true, err
}
