package transfer

import (
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
)

// ledger is the state of mail while the daemon runs: the bindings of agents to peers, the
// entries in their inboxes, the arrivals, and what waits for each peer.
//
// One mutex guards all of it, because scanning, sending, receiving and binding all change
// the same entries: if an agent is bound to another peer, a delivery that is under way loses
// its entry. The methods do no I/O and make no callbacks. They return the events that they
// cause.
type ledger struct {
	accounts accounts
	changed  pace.Signal // there is something to scan, or a peer's loops are to be checked

	mu         sync.Mutex // guards what follows
	bound      map[mailbox]*boundInbox
	arrivals   map[mailbox]map[string][]*arrival // stored and not consumed, by their names here
	arriving   map[arrivalKey]struct{}           // being stored
	queues     map[identity.ID]*peerQueue
	connected  map[identity.ID]bool
	peerAgents map[identity.ID]map[mailbox]struct{} // agents that live at a connected peer, as it says

	dirty     map[mailbox]names     // to be scanned
	whole     map[mailbox]names     // complete files: their writers have removed the temporary name
	scanAfter map[mailbox]time.Time // when inboxes that take long to scan are scanned again
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

// names is a set of files of a folder. Nil means all files.
type names map[string]struct{}

// filterByNames yields the values of some names, or all values if which is nil.
func filterByNames[V any](all map[string]V, which names) iter.Seq2[string, V] {
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

// setPeerConnected notes whether a peer is connected. See [Mailer.SetConnected].
func (l *ledger) setPeerConnected(peer identity.ID, up bool) {
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
		q = l.ensureQueue(peer)
		s.peerStatus = "" // until the peer says more
		l.markFilesDirtyLocked(p, names{})
	}
	l.changed.Set()     // perhaps it is no longer trusted
	if q != nil && up { // also a queue that has only reports
		q.unreached, q.trouble = backOff{}, ""
		l.retryRefusedByPeer(peer)
		q.requestAnnouncement()
	}
}

// markAllDisconnected notes that no peer is connected any more. Every status is written again.
func (l *ledger) markAllDisconnected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.connected)
	for _, s := range l.bound {
		s.fileStatusAt = time.Time{}
	}
}
