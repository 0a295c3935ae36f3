package transfer

import (
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
)

// ledger is what the daemon knows of its mail while it runs: which agents are bound to
// which peer, the entries in their inboxes, what arrived, and what waits for each peer.
//
// One mutex guards all of it, because scanning, sending, receiving and binding all move
// the same entries: an agent that is bound to another peer takes its entries away from a
// delivery that is under way. Its methods do no I/O and call nobody back. Events that
// they cause they return.
type ledger struct {
	accounts accounts
	changed  pace.Signal // something is to be scanned, or a peer's loops to be looked at

	mu         sync.Mutex // guards what follows
	bound      map[mailbox]*boundInbox
	arrivals   map[mailbox]map[string][]*arrival // stored and not consumed, by their names here
	arriving   map[arrivalKey]struct{}           // being stored
	queues     map[identity.ID]*peerQueue
	connected  map[identity.ID]bool
	peerAgents map[identity.ID]map[mailbox]struct{} // agents that live at a connected peer, as it says

	dirty     map[mailbox]names     // to be scanned
	whole     map[mailbox]names     // files whose writer has given up their temporary name
	scanAfter map[mailbox]time.Time // of inboxes that take long to scan: not before
}

func newLedger(a accounts) *ledger {
	return &ledger{
		accounts:   a,
		changed:    pace.NewSignal(),
		bound:      make(map[mailbox]*boundInbox),
		arrivals:   make(map[mailbox]map[string][]*arrival),
		arriving:   make(map[arrivalKey]struct{}),
		queues:     make(map[identity.ID]*peerQueue),
		connected:  make(map[identity.ID]bool),
		peerAgents: make(map[identity.ID]map[mailbox]struct{}),
		dirty:      make(map[mailbox]names),
		whole:      make(map[mailbox]names),
		scanAfter:  make(map[mailbox]time.Time),
	}
}

// names are files of a folder; nil are all of them.
type names map[string]struct{}

// selected yields those of all that a scan of some files, or of all for nil, is about.
func selected[V any](all map[string]V, which names) iter.Seq2[string, V] {
	if which == nil {
		return maps.All(all)
	}
	return func(yield func(string, V) bool) {
		for name := range which {
			if v, ok := all[name]; ok && !yield(name, v) {
				return
			}
		}
	}
}

// setConnected notes whether a peer is connected. What waits for a peer that has come is
// tried at once, and so is what that peer has refused.
func (l *ledger) setConnected(peer identity.ID, up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.connected[peer] == up {
		return
	}
	if up {
		l.connected[peer] = true
	} else {
		delete(l.connected, peer)
		delete(l.peerAgents, peer)
	}
	q := l.queues[peer]
	for p, s := range l.bound {
		if s.Peer != peer {
			continue
		}
		q = l.queueOf(peer)
		s.peerStatus = "" // until the peer says more
		l.markDirty(p, names{})
	}
	l.changed.Set()     // it may be down because it is not trusted any more
	if q != nil && up { // also one that has only something to report
		q.unreachedUntil, q.unreachedPause, q.trouble = time.Time{}, 0, ""
		l.retryRefused(peer)
		q.announceAgain()
	}
}

// disconnectAll notes that no peer is connected any more, and has every status written.
func (l *ledger) disconnectAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.connected)
	for _, s := range l.bound {
		s.fileStatusAt = time.Time{}
	}
}

// markDirty has the Run loop scan files of an inbox: all of them for nil. With none it
// brings the agent's status up to date and scans nothing. The caller holds l.mu.
func (l *ledger) markDirty(p mailbox, which names) {
	old, ok := l.dirty[p]
	switch {
	case which == nil || ok && old == nil:
		l.dirty[p] = nil
	case !ok:
		l.dirty[p] = which
	default:
		for name := range which {
			old[name] = struct{}{}
		}
	}
	l.changed.Set()
}

// noteChanged is markDirty for a caller that does not hold l.mu.
func (l *ledger) noteChanged(p mailbox, which names) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markDirty(p, which)
}

// noteWhole notes that a file's writer has given up its temporary name.
func (l *ledger) noteWhole(p mailbox, file string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole[p] == nil {
		l.whole[p] = make(names)
	}
	l.whole[p][file] = struct{}{}
	l.markDirty(p, names{file: {}})
}

// takeDirty returns what is to be scanned, and forgets it.
func (l *ledger) takeDirty() map[mailbox]names {
	l.mu.Lock()
	defer l.mu.Unlock()
	dirty := l.dirty
	l.dirty = make(map[mailbox]names)
	return dirty
}

// markAllDirty has everything scanned, offers again what was refused long ago, and
// has peers told how the agents here are.
func (l *ledger) markAllDirty() {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.whole, func(p mailbox, _ names) bool { // of files that never came
		_, coming := l.dirty[p]
		return !coming
	})
	now := time.Now()
	for p := range l.scanAfter {
		if l.bound[p] == nil && l.arrivals[p] == nil {
			delete(l.scanAfter, p)
		}
	}
	for p, s := range l.bound {
		l.markInbox(p, now)
		for _, e := range s.entries {
			if e.refused && now.After(e.nextTry) {
				l.requeue(e)
			}
		}
	}
	for p := range l.arrivals {
		l.markInbox(p, now)
	}
	for peer, q := range l.queues {
		if now.Sub(q.announcedAt) >= announceEvery {
			q.wake()
		}
		if q.retryPending {
			l.retryRefused(peer)
		}
	}
}

// markInbox has an inbox scanned, unless a scan of it takes so long that its turn has not
// come. The caller holds l.mu.
func (l *ledger) markInbox(p mailbox, now time.Time) {
	if now.After(l.scanAfter[p]) {
		l.markDirty(p, nil)
	}
}

// delayScan puts off the next scan of an inbox of n names that took long. What is heard of
// single files is scanned all the same. Few names take long only if the machine or its
// disk is busy with something else, which is no reason to wait.
func (l *ledger) delayScan(p mailbox, n int, took time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := scanShare * min(took, time.Duration(n)*scanTimePerName); wait > rescanEvery {
		l.scanAfter[p] = now.Add(wait)
	} else {
		delete(l.scanAfter, p)
	}
}

// mailboxes returns those whose inboxes are scanned.
func (l *ledger) mailboxes() map[mailbox]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[mailbox]struct{}, len(l.bound)+len(l.arrivals))
	for p := range l.bound {
		all[p] = struct{}{}
	}
	for p := range l.arrivals {
		all[p] = struct{}{}
	}
	return all
}
