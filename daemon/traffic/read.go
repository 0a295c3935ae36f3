package traffic

import (
	"context"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
)

// gatherTime is how long a reader that has come to the end gathers entries: so it is not woken for
// each. No person sees the difference.
const gatherTime = 10 * time.Millisecond

// Query says what a reader wants.
type Query struct {
	After    uint64 // number of the last entry that was read; 0: begin
	Limit    int    // of entries
	Room     int    // for them, in bytes of JSON
	Wait     time.Duration
	Filter   Filter
	Payloads bool
}

// Read returns entries behind q.After that the filter selects, and how many were overwritten before
// they could be read. With q.Wait it blocks until there is one, or that time has passed. It returns the
// cause of ctx if that ends before.
func (r *Recorder) Read(ctx context.Context, q *Query) (*client.TrafficAnswer, error) {
	a := &client.TrafficAnswer{Entries: []client.TrafficEntry{}, Next: r.beginAfter(q.After)}
	end := time.Now().Add(q.Wait)
	for {
		left := time.Until(end)
		if left > 0 && !r.hasMany(a.Next, q.Limit) {
			if err := r.awaitNews(ctx, a.Next, left); err != nil {
				return nil, err
			}
			if pace.Sleep(ctx, min(gatherTime, time.Until(end))) != nil {
				return nil, context.Cause(ctx)
			}
		}
		r.collect(q, a)
		if len(a.Entries) > 0 || a.Lost > 0 || left <= 0 {
			return a, nil
		}
	}
}

// beginAfter returns the cursor that a reader means by after.
func (r *Recorder) beginAfter(after uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case after == 0 && r.history.Entries == 0:
		return r.next - 1
	case after == 0, after >= r.next: // from another process, whose clock was ahead
		return r.oldest - 1
	}
	return max(after, r.start)
}

// hasMany reports whether so many entries are behind a cursor.
func (r *Recorder) hasMany(after uint64, many int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next-1-after >= uint64(many)
}

// awaitNews blocks until an entry is behind a cursor, or the time has passed. It returns the cause of
// ctx if that ends before.
func (r *Recorder) awaitNews(ctx context.Context, after uint64, limit time.Duration) error {
	r.mu.Lock()
	if r.next-1 > after {
		r.mu.Unlock()
		return nil
	}
	if r.news == nil {
		r.news = make(chan struct{})
	}
	news := r.news
	r.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// collect adds to a what is behind its cursor, and moves that on.
func (r *Recorder) collect(q *Query, a *client.TrafficAnswer) {
	room := q.Room
	var some [64]*entry
	for {
		n := r.copyEntries(a, some[:])
		for _, e := range some[:n] {
			if !q.Filter.Selects(&e.TrafficEntry) {
				a.Next = e.Seq
				continue
			}
			t := e.describe(r.nameOf(e.Peer), q.Payloads)
			size := MeasureEntry(&t)
			if len(a.Entries) == 0 && size > room { // it would never fit
				t.Payload, t.AnswerPayload = nil, nil
			}
			if len(a.Entries) >= q.Limit || len(a.Entries) > 0 && size > room {
				return
			}
			a.Entries, a.Next = append(a.Entries, t), e.Seq
			room -= size
		}
		if n < len(some) {
			return
		}
	}
}

// copyEntries copies the entries behind the cursor of a to some, and returns how many. It counts those
// that were overwritten, and moves the cursor behind them. Readers look at them without the lock, for
// which those that record wait.
func (r *Recorder) copyEntries(a *client.TrafficAnswer, some []*entry) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Next < r.oldest-1 {
		a.Lost += r.oldest - 1 - a.Next
		a.Next = r.oldest - 1
	}
	for n < len(some) && a.Next+1+uint64(n) < r.next {
		some[n] = r.ring[(a.Next+1+uint64(n))&uint64(len(r.ring)-1)]
		n++
	}
	return n
}
