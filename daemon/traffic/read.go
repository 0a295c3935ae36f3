package traffic

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
)

// gatherTime is how long a reader that has come to the end gathers entries: so it is not woken for
// each. No person sees the difference.
const gatherTime = 10 * time.Millisecond

// Query says what a reader wants.
type Query struct {
	Who      any    // who watches, as in Recorder.Watch; nil: nobody does
	After    uint64 // number of the last entry that was read; 0: begin
	Limit    int    // of entries
	Room     int    // for them, in bytes of JSON
	Wait     time.Duration
	Filter   Filter
	Payloads bool
}

// Read returns entries behind q.After that the filter selects, and how many were lost before
// they could be read. With q.Wait it blocks until there is one, or that time has passed. It returns the
// cause of ctx if that ends before.
func (r *Recorder) Read(ctx context.Context, q *Query) (*client.TrafficAnswer, error) {
	a := &client.TrafficAnswer{Entries: []client.TrafficEntry{}}
	begin := r.beginRead(q, a)
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
		r.collect(q, a, begin)
		if len(a.Entries) > 0 || a.Lost > 0 || left <= 0 {
			return a, nil
		}
	}
}

// beginRead sets the cursor of a that a reader means by q.After, and returns up to which number
// it has lost nothing: that of the last entry when it began without a cursor. A reader that does not watch may read, too.
func (r *Recorder) beginRead(q *Query, a *client.TrafficAnswer) (begin uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case q.After == 0 && r.history.Entries == 0:
		a.Next, begin = r.next-1, r.next-1
	case q.After == 0, q.After >= r.next: // from another process, whose clock was ahead
		a.Next, begin = r.start, r.next-1
	default:
		a.Next = max(q.After, r.start)
	}
	if before, watches := r.watchers[q.Who]; watches {
		begin = max(before, begin)
		r.watchers[q.Who] = begin
	}
	return begin
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
func (r *Recorder) collect(q *Query, a *client.TrafficAnswer, begin uint64) {
	// moveTo moves the cursor, and adds the entries up to passed that no longer exist to the lost ones.
	moveTo := func(number, passed uint64) {
		a.Lost += max(passed, begin, a.Next) - max(begin, a.Next)
		a.Next = number
	}
	all, newest := r.listAfter(a.Next)
	room := q.Room
	for _, e := range all {
		if q.Filter.Selects(&e.TrafficEntry) {
			if len(a.Entries) >= q.Limit {
				return
			}
			t := e.describe(r.nameOf(e.Peer), q.Payloads)
			size := MeasureEntry(&t)
			if size > room {
				if len(a.Entries) > 0 {
					return
				}
				t.Payload, t.AnswerPayload = nil, nil // it would never fit
			}
			a.Entries = append(a.Entries, t)
			room -= size
		}
		moveTo(e.Seq, e.Seq-1)
	}
	moveTo(newest, newest)
}

// listAfter returns the entries behind a cursor, in their order, and the number of the last one that was recorded.
func (r *Recorder) listAfter(after uint64) (all []*entry, newest uint64) {
	r.mu.Lock()
	all, newest = r.kept.listAfter(after), r.next-1
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, newest
}
