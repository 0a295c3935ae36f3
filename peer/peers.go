package peer

import (
	"net/netip"
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// stateOf returns the state of a peer that is or was trusted. It makes it on first use.
func (n *Node) stateOf(id identity.ID) *peerState {
	n.mu.RLock()
	r := n.peers[id]
	n.mu.RUnlock()
	if r != nil {
		return r
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.peers[id]; r != nil {
		return r
	}
	r = &peerState{
		node: n, id: id,
		envelopes: n.rows.envelopes.Share(id, envelopeChunk),
		replies:   n.rows.replies.Share(id, envelopeChunk),
		streams:   n.rows.streams.Share(id, streamChunk),
	}
	n.peers[id] = r
	return r
}

const (
	envelopeChunk = 64 << 10 // most envelopes are far smaller
	streamChunk   = 8
)

// trustedState returns the state of the peer that a call is for. The error says that it
// is not trusted: no state is kept of strangers.
func (n *Node) trustedState(id identity.ID) (*peerState, *kinds.Error) {
	n.mu.RLock()
	r := n.peers[id]
	n.mu.RUnlock()
	if r != nil {
		return r, nil
	}
	if _, ok := n.cfg.Trust.Get(id); !ok {
		return nil, n.unknownPeerError(id)
	}
	return n.stateOf(id), nil
}

// Peer describes a connected peer.
type Peer struct {
	ID       identity.ID
	Addr     string // remote address of the connection in use
	RTT      time.Duration
	Claim    string // what the peer calls itself
	Boot     wire.Boot
	Features []string
}

// Peers returns the connected peers, ordered by id.
func (n *Node) Peers() []Peer {
	n.mu.RLock()
	all := make([]Peer, 0, len(n.peers))
	for _, r := range n.peers {
		if c := r.current.Load(); c != nil {
			all = append(all, c.describe())
		}
	}
	n.mu.RUnlock()
	slices.SortFunc(all, func(a, b Peer) int { return a.ID.Compare(b.ID) })
	return all
}

// ConnectedBut reports whether a peer other than this one is connected.
func (n *Node) ConnectedBut(id identity.ID) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for other, r := range n.peers {
		if other != id && r.current.Load() != nil {
			return true
		}
	}
	return false
}

// Peer returns a connected peer.
func (n *Node) Peer(id identity.ID) (Peer, bool) {
	n.mu.RLock()
	r := n.peers[id]
	n.mu.RUnlock()
	if r == nil {
		return Peer{}, false
	}
	c := r.current.Load()
	if c == nil {
		return Peer{}, false
	}
	return c.describe(), true
}

// Connect keeps a connection to a trusted peer: it dials now, and again whenever
// the last connection ends. Call it too when a new address is known.
func (n *Node) Connect(id identity.ID) {
	r := n.stateOf(id)
	p, waited := n.pending.remove(id)
	r.mu.Lock()
	r.keep = true
	r.verdict = nil
	r.backoff = 0
	if waited && r.lastGoodAddr == "" {
		r.lastGoodAddr = p.Addr
	}
	r.mu.Unlock()
	r.ensureReconnecting()
}

// Disconnect closes every connection to a peer at once and keeps none. Call it
// after the trust store has been told: the peer hears what stands there.
func (n *Node) Disconnect(id identity.ID) {
	n.pending.remove(id)
	n.mu.RLock()
	r := n.peers[id]
	n.mu.RUnlock()
	if r == nil {
		return
	}
	code, reason, verdict := closeNotTrusted, "not trusted any more", n.unknownPeerError(id)
	if _, trusted := n.cfg.Trust.Get(id); trusted {
		code, reason, verdict = closeShutdown, "disconnected", n.unreachableError(id, kinds.DeliveredNo, "it was disconnected; try again")
	}
	r.mu.Lock()
	r.keep = false
	r.lastGoodAddr, r.lastFailure = "", nil
	r.noteProved(netip.AddrPort{})
	conns := slices.Clone(r.conns)
	r.settleDial(&failure{Error: verdict})
	r.mu.Unlock()
	for _, c := range conns {
		c.close(code, reason)
	}
}
