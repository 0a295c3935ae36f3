package store

import (
	"slices"
	"time"
)

// Bounds of one commit, which all that wait for the next one sit out.
const (
	// maxPerPeer bounds the writes of one peer while another requester waits.
	maxPerPeer = 8

	// longCommit is the time after which no second write of a peer begins in a commit while
	// another requester waits.
	longCommit = time.Millisecond

	// maxPerCommit bounds the writes in all. A burst of a single peer, 256
	// messages under way at a time, still is one fsync.
	maxPerCommit = 256
)

// pickBatch removes from the queue the writes of the next commit. Requesters take turns: it takes the
// first write of each before the second of any.
func (q *writer) pickBatch() []*write {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.queue[0].requester
	mixed := slices.ContainsFunc(q.queue, func(w *write) bool { return w.requester != first })
	rounds := make(map[any]int)
	var batch []*write
	for _, w := range q.queue {
		w.round = rounds[w.requester]
		rounds[w.requester]++
		if !mixed || w.requester == nil || w.round < maxPerPeer {
			batch = append(batch, w)
		}
	}
	slices.SortStableFunc(batch, func(a, b *write) int { return a.round - b.round })
	batch = batch[:min(len(batch), maxPerCommit)]
	picked := make(map[*write]bool, len(batch))
	for _, w := range batch {
		picked[w] = true
	}
	q.queue = slices.DeleteFunc(q.queue, func(w *write) bool { return picked[w] })
	return batch
}

// requeue puts writes that were picked and not run back to the front of the queue.
func (q *writer) requeue(rest []*write) {
	if len(rest) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = slices.Concat(rest, q.queue)
}

// hasOtherRequesters reports whether another requester waits for the next commit.
func (q *writer) hasOtherRequesters(who any) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.queue, func(w *write) bool { return w.requester != who })
}
