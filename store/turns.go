package store

import (
	"slices"
	"time"
)

// Bounds of one commit, which all that wait for the next one sit out.
const (
	// perPeer bounds the writes of one peer while another owner waits.
	perPeer = 8

	// longTime is how long a commit may have taken when a peer's second write begins in
	// it while another owner waits.
	longTime = time.Millisecond

	// perCommit bounds the writes in all. A burst of a peer that is alone, 256
	// messages under way at a time, still is one fsync.
	perCommit = 256
)

// pickBatch removes from the queue the writes of the next commit. Owners take turns: the
// first write of each goes before the second of any.
func (q *writer) pickBatch() []*write {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.queue[0].owner
	if !slices.ContainsFunc(q.queue, func(w *write) bool { return w.owner != first }) {
		n := min(len(q.queue), perCommit)
		batch := slices.Clone(q.queue[:n])
		q.queue = slices.Delete(q.queue, 0, n)
		for i, w := range batch {
			w.round = i
		}
		return batch
	}
	rounds := make(map[any]int)
	var batch []*write
	for _, w := range q.queue {
		w.round = rounds[w.owner]
		rounds[w.owner]++
		if w.owner == nil || w.round < perPeer {
			batch = append(batch, w)
		}
	}
	slices.SortStableFunc(batch, func(a, b *write) int { return a.round - b.round })
	batch = batch[:min(len(batch), perCommit)]
	picked := make(map[*write]bool, len(batch))
	for _, w := range batch {
		picked[w] = true
	}
	q.queue = slices.DeleteFunc(q.queue, func(w *write) bool { return picked[w] })
	return batch
}

// putBack puts writes that were picked and not run at the front of the queue.
func (q *writer) putBack(rest []*write) {
	if len(rest) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = slices.Concat(rest, q.queue)
}

// othersWait reports whether an owner other than who waits for the next commit.
func (q *writer) othersWait(who any) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.queue, func(w *write) bool { return w.owner != who })
}
