package traffic

import (
	"time"

	"github.com/acpd/acpd/kinds"
)

const (
	maxWatchers = 64               // bounds those who watch at a time
	patience    = 10 * time.Second // how long a watcher that loses entries may read nothing
	lookEvery   = 64               // evictions between two searches for stalled watchers
)

// watchers is those who watch.
type watchers struct {
	all       map[any]*watcher
	evictions int // since dropStalled looked
}

// watcher is somebody who watches.
type watcher struct {
	payloads bool
	reads    int       // calls of Read that are under way
	readAt   time.Time // when the last one ended
	cursor   uint64    // of that
	begin    uint64    // entries up to this number were never its to read: they passed before it first read without a cursor
}

// Watch has entries kept, from now on with whole payloads if that is wanted, until EndWatch is called
// with the same who, or who has read nothing for 10 s and lost entries. It may watch already.
func (r *Recorder) Watch(who any, payloads bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.watchers.all[who]
	if w == nil {
		if len(r.watchers.all) >= maxWatchers {
			return kinds.Errorf(kinds.Overloaded, "traffic: %d connections watch already, the most there can be: end one of them", maxWatchers)
		}
		w = new(watcher)
		r.watchers.all[who] = w
	}
	w.payloads, w.readAt, w.cursor = payloads, time.Now(), r.next-1
	r.begun.Store(true)
	r.adjust()
	return nil
}

// EndWatch ends what Watch began. When nobody watches any more, only the history is kept.
func (r *Recorder) EndWatch(who any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watchers.all[who] != nil {
		delete(r.watchers.all, who)
		r.adjust()
	}
}

// IsWatching reports whether who watches.
func (r *Recorder) IsWatching(who any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watchers.all[who] != nil
}

func (s *watchers) wantPayloads() bool {
	for _, w := range s.all {
		if w.payloads {
			return true
		}
	}
	return false
}

// beginRead notes that a watcher reads, and returns the number up to which it has lost nothing: begin, or what
// an earlier read returned. A reader that does not watch may read, too.
func (s *watchers) beginRead(who any, begin uint64) uint64 {
	w := s.all[who]
	if w == nil {
		return begin
	}
	w.reads++
	w.begin = max(w.begin, begin)
	return w.begin
}

// endRead notes that a read has ended at a cursor.
func (s *watchers) endRead(who any, cursor uint64) {
	if w := s.all[who]; w != nil && w.reads > 0 {
		w.reads--
		w.readAt, w.cursor = time.Now(), cursor
	}
}

// dropStalled removes watchers that have read nothing for long and have lost an entry, and reports whether it has
// removed any. evicted is the number of the last entry that was dropped. It looks only once in lookEvery evictions.
func (s *watchers) dropStalled(evicted uint64) (dropped bool) {
	if s.evictions++; s.evictions < lookEvery {
		return false
	}
	s.evictions = 0
	now := time.Now()
	for who, w := range s.all {
		if w.reads == 0 && w.cursor < evicted && now.Sub(w.readAt) >= patience {
			delete(s.all, who)
			dropped = true
		}
	}
	return dropped
}
