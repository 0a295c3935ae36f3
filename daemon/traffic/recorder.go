// Package traffic keeps the last messages that have passed a daemon, in memory, for its owner to
// watch: the history, unless the configuration turns it off, and more as long as somebody watches.
//
// A reader has a cursor and fetches what is behind it. A reader loses what it does not fetch in time, and gets the
// number of lost entries. So recording never waits for a reader, and a reader that has stalled is forgotten when it
// has lost something. While nobody watches and the history is off, messages are only counted, so that a reader that
// comes back gets the number that it has missed. Before anybody has watched, they are not even counted.
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

// Recorder keeps the entries of messages that have passed. Any number of goroutines may use it.
type Recorder struct {
	Open *OpenCalls // queries

	nameOf    func(identity.ID) string
	isBlocked func(identity.ID) bool
	keeps     atomic.Int64 // bytes of a payload that are kept, or 0 while nobody watches and the history is off. Set with mu held
	begun     atomic.Bool  // somebody has watched: there may be cursors

	mu       sync.Mutex // guards what follows
	history  Bounds
	watchers watchers
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
	return &Recorder{Open: newOpenCalls(), nameOf: nameOf, isBlocked: isBlocked, watchers: watchers{all: make(map[any]*watcher)}, start: start, next: start + 1}
}

// IsOn reports whether entries are kept.
func (r *Recorder) IsOn() bool { return r.keeps.Load() > 0 }

// skip returns false, and does nothing, if messages are kept. Otherwise it returns true, and counts the message
// if anybody has watched before.
func (r *Recorder) skip() bool {
	switch {
	case r.IsOn():
		return false
	case !r.begun.Load():
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept.bounds.Entries > 0 {
		return false
	}
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

// adjust sets how much is kept, as is wanted now, and drops what is beyond that. The caller holds mu.
func (r *Recorder) adjust() {
	b := r.history
	if len(r.watchers.all) > 0 {
		b = Bounds{max(b.Entries, watched.Entries), max(b.Bytes, watched.Bytes)}
	}
	keeps := 0
	switch {
	case r.history.Entries > 0, r.watchers.wantPayloads():
		keeps = maxWhole
	case b.Entries > 0:
		keeps = maxHead
	}
	r.keeps.Store(int64(keeps))
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
// kept, it only skips m.
func (r *Recorder) Record(m *peer.Passing) {
	if r.skip() {
		return
	}
	e := newEntry(m, max(int(r.keeps.Load()), maxHead))
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Seq = r.next
	r.next++
	if r.kept.bounds.Entries == 0 { // since the last moment
		return
	}
	evicted := r.kept.evicted
	if r.isBlocked(e.Peer) {
		r.kept.evicted = e.Seq
	} else {
		r.kept.add(e)
		if r.news != nil {
			close(r.news)
			r.news = nil
		}
	}
	if r.kept.evicted != evicted && r.watchers.dropStalled(r.kept.evicted) {
		r.adjust()
	}
}
