// Package traffic keeps the last messages that have passed a daemon, in memory, for its owner to
// watch: the history, unless the configuration turns it off, and more as long as somebody watches.
//
// A reader has a cursor and fetches what is behind it. A reader loses what it does not fetch in time, and gets the
// number of lost entries. So recording never waits for a reader. While nobody watches and the history is off, messages
// are only counted, so that a reader that comes back gets the number that it has missed.
package traffic

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
)

// Bounds says how many entries are kept, and how many bytes of memory they may take together. An entry
// needs at most 256 KiB, however much its message says.
type Bounds struct{ Entries, Bytes int }

// History bounds what is kept while nobody watches, unless the configuration turns it off.
var History = Bounds{1000, 4 << 20}

// watched bounds what is kept while somebody watches.
var watched = Bounds{8192, 4 << 20}

// maxWatchers bounds those who watch at a time.
const maxWatchers = 64

// Recorder keeps the entries of messages that have passed. Any number of goroutines may use it.
type Recorder struct {
	Open *OpenCalls // queries

	nameOf    func(identity.ID) string
	isBlocked func(identity.ID) bool
	isOn      atomic.Bool // entries are kept: somebody watches, or the history is on. Set with mu held

	mu       sync.Mutex // guards what follows
	history  Bounds
	watchers map[any]uint64 // those who watch, and up to which number entries were never theirs to read: they passed before the first read without a cursor
	kept     kept
	start    uint64        // before the number of the first entry that was ever recorded
	next     uint64        // number of the entry that is recorded next
	news     chan struct{} // closed when an entry is recorded; nil while nobody waits for one
}

// NewRecorder returns a recorder without a history. nameOf returns the petname of a peer, or ""; it is called when
// entries are read. Entries of a peer for which isBlocked returns true are not kept. The numbers of entries begin with
// the time, so that a cursor of an earlier process is not taken for one of this process.
func NewRecorder(nameOf func(identity.ID) string, isBlocked func(identity.ID) bool) *Recorder {
	start := uint64(time.Now().UnixMicro())
	return &Recorder{Open: newOpenCalls(), nameOf: nameOf, isBlocked: isBlocked, watchers: make(map[any]uint64), start: start, next: start + 1}
}

// IsOn reports whether entries are kept.
func (r *Recorder) IsOn() bool { return r.isOn.Load() }

// SetHistory sets what is kept while nobody watches. It drops what is kept beyond that.
func (r *Recorder) SetHistory(b Bounds) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = b
	r.adjust()
}

// adjust sets how much is kept, as is wanted now, and drops what is beyond that. The caller holds mu.
func (r *Recorder) adjust() {
	b := r.history
	if len(r.watchers) > 0 {
		b = Bounds{max(b.Entries, watched.Entries), max(b.Bytes, watched.Bytes)}
	}
	r.isOn.Store(b.Entries > 0)
	r.kept.setBounds(b)
}

// ForgetPeer removes all entries of a peer, for which isBlocked returns true by now.
func (r *Recorder) ForgetPeer(peer identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept.forgetPeer(peer)
}

// Began makes a query an open call until Ended is called.
func (r *Recorder) Began(p *peer.Passing) {
	if p.Kind == kinds.KindQuery {
		r.Open.add(p)
	}
}

// Ended records a message. Nobody sees a query as an open call and as an entry.
func (r *Recorder) Ended(p *peer.Passing) {
	if p.Kind == kinds.KindQuery {
		r.Open.remove(p)
	}
	r.Record(p)
}

// Record keeps a copy of what m says, and drops old entries for it. It does not wait for a reader. If nothing is
// kept, it only counts m.
func (r *Recorder) Record(m *peer.Passing) {
	var e *entry
	if r.IsOn() {
		e = newEntry(m)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	number := r.next
	r.next++
	if e == nil || r.kept.bounds.Entries == 0 || r.isBlocked(e.Peer) { // maybe since the last moment
		return
	}
	e.Seq = number
	r.kept.add(e)
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// Watch has entries kept, from now on, until EndWatch is called with the same who. It may watch already.
func (r *Recorder) Watch(who any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, watches := r.watchers[who]; watches {
		return nil
	}
	if len(r.watchers) >= maxWatchers {
		return kinds.Errorf(kinds.Overloaded, "traffic: %d connections watch already, the most there can be: end one of them", maxWatchers)
	}
	r.watchers[who] = 0
	r.adjust()
	return nil
}

// EndWatch ends what Watch began. When nobody watches any more, only the history is kept.
func (r *Recorder) EndWatch(who any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.watchers, who)
	r.adjust()
}

// IsWatching reports whether who watches.
func (r *Recorder) IsWatching(who any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, watches := r.watchers[who]
	return watches
}
