package peer

import (
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
)

// Pending is a stranger that proved its key and waits for the owner's decision.
type Pending struct {
	ID    identity.ID
	Claim string // what it calls itself
	Addr  string // where it came from, which is also where it listens
	Path  Path   // on which it came
	PQ    identity.PQHash
	At    time.Time // last seen
}

const (
	maxPending          = 64
	maxPendingPerSource = 4
	pendingInterval     = 30 * time.Second
)

// pendingTable holds the pending strangers, bounded on each link, in all and of each source. A new
// one displaces the oldest of its link.
type pendingTable struct {
	mu      sync.Mutex // guards entries
	entries []pendingEntry
}

type pendingEntry struct {
	Pending
	link   *endpoint
	source source
}

// add adds or updates p and reports whether it did: a key is updated every 30 s at most.
func (t *pendingTable) add(p Pending, link *endpoint, from source) bool {
	e := pendingEntry{p, link, from}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.entries, func(o pendingEntry) bool { return o.ID == p.ID }); i >= 0 {
		if p.At.Sub(t.entries[i].At) < pendingInterval {
			return false
		}
		t.entries = slices.Delete(t.entries, i, i+1)
	}
	onLink := func(o pendingEntry) bool { return o.link == e.link }
	ofSource := func(o pendingEntry) bool { return onLink(o) && o.source == e.source }
	t.dropOldest(ofSource, maxPendingPerSource)
	t.dropOldest(onLink, maxPending)
	t.entries = append(t.entries, e)
	return true
}

// dropOldest removes the oldest that matches, if so many do. Callers hold mu.
func (t *pendingTable) dropOldest(match func(pendingEntry) bool, most int) {
	n := 0
	for _, o := range t.entries {
		if match(o) {
			n++
		}
	}
	if n >= most {
		i := slices.IndexFunc(t.entries, match)
		t.entries = slices.Delete(t.entries, i, i+1)
	}
}

// remove removes a stranger and returns it.
func (t *pendingTable) remove(id identity.ID) (Pending, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.entries, func(o pendingEntry) bool { return o.ID == id })
	if i < 0 {
		return Pending{}, false
	}
	p := t.entries[i].Pending
	t.entries = slices.Delete(t.entries, i, i+1)
	return p, true
}

// Pending returns the strangers that wait, the latest last.
func (n *Node) Pending() []Pending {
	n.pending.mu.Lock()
	defer n.pending.mu.Unlock()
	all := make([]Pending, 0, len(n.pending.entries))
	for _, e := range n.pending.entries {
		if n.isUndecidedKey(e.ID) { // it may have been decided on while it was added
			all = append(all, e.Pending)
		}
	}
	return all
}

// isUndecidedKey reports whether a key is neither trusted nor blocked.
func (n *Node) isUndecidedKey(id identity.ID) bool {
	_, trusted := n.cfg.Trust.FindPeer(id)
	return !trusted && !n.cfg.Trust.IsBlocked(id)
}
