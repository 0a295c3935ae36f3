// Package traffic keeps the last messages that have passed a daemon, in memory, for its owner to
// watch: as long as somebody watches, or the configuration wants a history.
//
// A reader has a cursor and fetches what is behind it. What is not fetched in time is overwritten, and
// the reader is told how much that was. So a reader that stalls costs nothing, and whoever records
// never waits for one. While nobody watches and there is no history, messages are only counted, so that a
// reader whose connection broke is told how many it has missed; before anybody has watched, not even that.
package traffic

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Bounds says how many entries are kept, and how many bytes of memory they may take together. An entry
// needs at most 256 KiB, the least that config.yaml allows, however much its message says.
type Bounds struct{ Entries, Bytes int }

// watched bounds what is kept while somebody watches.
var watched = Bounds{8192, 4 << 20}

// maxWatchers bounds those who watch at a time.
const maxWatchers = 64

// Recorder keeps the entries of messages that have passed. Any number of goroutines may use it.
type Recorder struct {
	nameOf func(identity.ID) string
	keeps  atomic.Int64 // bytes of a payload that are kept; 0: nothing is, since nobody watches and there is no history. It is set with mu held
	begun  atomic.Bool  // somebody has watched: there may be cursors

	mu       sync.Mutex // guards what follows
	history  Bounds
	watchers map[any]bool  // whether each wants payloads
	ring     []*entry      // that with the number n is at n modulo the length, which is a power of two
	start    uint64        // before the number of the first entry that was ever recorded
	oldest   uint64        // number of the oldest entry in ring
	next     uint64        // number of the entry that is recorded next; oldest: there is none in ring
	bytes    int           // of the entries in ring
	news     chan struct{} // closed when an entry is recorded; nil while nobody waits for one
}

// NewRecorder returns a recorder without a history. nameOf returns the petname of a peer, "" for none;
// it is asked when entries are read. The numbers of entries begin with the time, so that no cursor of
// an earlier process is taken for one of this.
func NewRecorder(nameOf func(identity.ID) string) *Recorder {
	start := uint64(time.Now().UnixMicro())
	return &Recorder{nameOf: nameOf, watchers: make(map[any]bool), start: start, oldest: start + 1, next: start + 1}
}

// IsOn reports whether entries are kept.
func (r *Recorder) IsOn() bool { return r.keeps.Load() > 0 }

// HasBegun reports whether anybody has watched since the process began.
func (r *Recorder) HasBegun() bool { return r.begun.Load() }

// Skip counts a message that is not kept, and reports that. It returns false, and does nothing, if
// messages are kept.
func (r *Recorder) Skip() bool {
	if !r.begun.Load() && !r.IsOn() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bounds().Entries > 0 {
		return false
	}
	r.oldest++
	r.next++
	return true
}

// SetHistory sets what is kept while nobody watches. It drops what is kept beyond that.
func (r *Recorder) SetHistory(b Bounds) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = b
	r.adjust()
}

// Watch has entries kept, from now on with whole payloads if that is wanted, until EndWatch is called
// with the same who. It may watch already.
func (r *Recorder) Watch(who any, payloads bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.watchers[who]; !known && len(r.watchers) >= maxWatchers {
		return kinds.Errorf(kinds.Overloaded, "traffic: %d connections watch already, the most there can be: end one of them", maxWatchers)
	}
	r.watchers[who] = payloads
	r.begun.Store(true)
	r.adjust()
	return nil
}

// EndWatch ends what Watch began. When nobody watches any more, only the history is kept.
func (r *Recorder) EndWatch(who any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.watchers[who]; known {
		delete(r.watchers, who)
		r.adjust()
	}
}

// IsWatching reports whether who watches.
func (r *Recorder) IsWatching(who any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.watchers[who]
	return known
}

// bounds returns the bounds that count now. The caller holds mu.
func (r *Recorder) bounds() Bounds {
	b := r.history
	if len(r.watchers) > 0 {
		b = Bounds{max(b.Entries, watched.Entries), max(b.Bytes, watched.Bytes)}
	}
	return b
}

// adjust makes the bounds that count now good. The caller holds mu.
func (r *Recorder) adjust() {
	b := r.bounds()
	keeps := 0
	switch {
	case r.history.Entries > 0, slices.Contains(slices.Collect(maps.Values(r.watchers)), true):
		keeps = maxWhole
	case b.Entries > 0:
		keeps = maxHead
	}
	r.keeps.Store(int64(keeps))
	for r.oldest < r.next && (r.next-r.oldest > uint64(b.Entries) || r.bytes > b.Bytes) {
		r.dropOldest()
	}
	size := 1
	for uint64(size) < r.next-r.oldest {
		size *= 2
	}
	if b.Entries == 0 {
		r.ring = nil
	} else if size < len(r.ring) {
		r.resize(size)
	}
}

// dropOldest drops the oldest entry, of which there is one. The caller holds mu.
func (r *Recorder) dropOldest() {
	at := r.oldest & uint64(len(r.ring)-1)
	r.bytes -= r.ring[at].cost
	r.ring[at] = nil
	r.oldest++
}

// resize gives the ring another length, which holds all entries. The caller holds mu.
func (r *Recorder) resize(size int) {
	ring := make([]*entry, size)
	for n := r.oldest; n < r.next; n++ {
		ring[n&uint64(size-1)] = r.ring[n&uint64(len(r.ring)-1)]
	}
	r.ring = ring
}

// Message is a message that has passed, and what became of it.
type Message struct {
	Direction client.MessageDirection
	Request   kinds.Checked
	Began     time.Time
	Agent     string         // the agent that was chosen for it; "": the one that it names
	Reply     *wire.Envelope // nil: there is none
	Outcome   string         // if Err is nil
	Err       error
}

// Record keeps what m says, if anything is kept, and drops old entries for it. It copies what it keeps.
// It never waits for a reader. What is not kept it skips.
func (r *Recorder) Record(m *Message) {
	if !r.IsOn() && r.Skip() {
		return
	}
	e := newEntry(m, max(int(r.keeps.Load()), maxHead))
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.bounds()
	if b.Entries == 0 { // since the last moment
		r.oldest++
		r.next++
		return
	}
	for r.oldest < r.next && (r.next-r.oldest >= uint64(b.Entries) || r.bytes+e.cost > b.Bytes) {
		r.dropOldest()
	}
	if r.next-r.oldest == uint64(len(r.ring)) {
		r.resize(max(1, 2*len(r.ring)))
	}
	e.Seq = r.next
	r.ring[r.next&uint64(len(r.ring)-1)] = e
	r.next++
	r.bytes += e.cost
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}
