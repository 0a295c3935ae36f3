package peer

import (
	"net/netip"
	"sync"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
)

// lapsedPeers are keys that are no longer certified peers; their state is dropped
// once it is unused. Without that, each key of an authority would leave a state.
type lapsedPeers struct {
	wake pace.Signal

	mu  sync.Mutex // guards ids
	ids map[identity.ID]bool
}

func newLapsedPeers() lapsedPeers {
	return lapsedPeers{wake: pace.NewSignal(), ids: make(map[identity.ID]bool)}
}

// lapse has the state of a key forgotten as soon as nothing uses it, unless it is a peer then.
func (n *Node) lapse(id identity.ID) {
	n.lapsed.mu.Lock()
	defer n.lapsed.mu.Unlock()
	n.lapsed.ids[id] = true
	n.lapsed.wake.Set()
}

// forget calls try for each key, and keeps those for which it reports false. It reports whether there
// are such.
func (l *lapsedPeers) forget(try func(identity.ID) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.ids {
		if try(id) {
			delete(l.ids, id)
		}
	}
	return len(l.ids) > 0
}

// tryForgetState drops the state of a key that is no longer a peer. It reports whether nothing remains to be done:
// nothing uses the state, or the key is a peer. A connection that got hold of the state before is
// refused by checkHello, and lockState takes no state that is gone.
func (n *Node) tryForgetState(id identity.ID) bool {
	state := n.findState(id)
	if state == nil {
		return true
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	if _, ok := n.cfg.Trust.FindPeer(id); ok { // if it becomes one from here on, Connect waits for the lock
		return true
	}
	if len(state.conns) > 0 || len(state.greeting) > 0 || state.dial != nil || state.retry != nil || state.emitting || len(state.events) > 0 {
		return false
	}
	for _, share := range state.listShares() {
		if share.ReleaseUnused(); share.Used() > 0 {
			return false
		}
	}
	if n.unread.account.HeldBy(id) > 0 || state.callSlots.exchanges.Load() > 0 || state.callSlots.bulk.Load() > 0 {
		return false
	}
	state.gone = true
	state.setProvedAddr(netip.AddrPort{})
	n.mu.Lock()
	delete(n.peers, id)
	n.mu.Unlock()
	return true
}
