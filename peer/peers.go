package peer

import (
	"net/netip"
	"slices"
	"sort"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// findState returns the state of a peer, or nil if there is none.
func (n *Node) findState(id identity.ID) *peerState {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.peers[id]
}

// findOrCreateState returns the state of a peer that is or was trusted. It makes it on first use.
func (n *Node) findOrCreateState(id identity.ID) *peerState {
	if r := n.findState(id); r != nil {
		return r
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.peers[id]; r != nil {
		return r
	}
	r := &peerState{
		node: n, id: id,
		envelopes: n.rows.envelopes.NewShare(id, envelopeChunk),
		replies:   n.rows.replies.NewShare(id, envelopeChunk),
		streams:   n.rows.streams.NewShare(id, streamChunk),
	}
	n.peers[id] = r
	return r
}

const (
	envelopeChunk = 64 << 10 // most envelopes are far smaller
	streamChunk   = 8
)

// findTrustedState returns the state of the peer that a call is for. The error says that it
// is not trusted: no state is kept of strangers.
func (n *Node) findTrustedState(id identity.ID) (*peerState, *kinds.Error) {
	if r := n.findState(id); r != nil {
		return r, nil
	}
	if _, ok := n.cfg.Trust.Get(id); !ok {
		return nil, n.newUnknownPeerError(id)
	}
	return n.findOrCreateState(id), nil
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
	all := []Peer{}
	for _, r := range n.listStates() {
		if c := r.current.Load(); c != nil {
			all = append(all, c.describePeer())
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID.Compare(all[j].ID) < 0 })
	return all
}

// IsOtherConnected reports whether a peer other than this one is connected.
func (n *Node) IsOtherConnected(id identity.ID) bool {
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
	if r := n.findState(id); r != nil {
		if c := r.current.Load(); c != nil {
			return c.describePeer(), true
		}
	}
	return Peer{}, false
}

// Connect keeps a connection to a trusted peer: it dials now, and again whenever
// the last connection ends. Call it too when a new address is known.
func (n *Node) Connect(id identity.ID) {
	r := n.findOrCreateState(id)
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
	r := n.findState(id)
	if r == nil {
		return
	}
	code, reason, verdict := closeNotTrusted, "not trusted any more", n.newUnknownPeerError(id)
	if _, trusted := n.cfg.Trust.Get(id); trusted {
		code, reason, verdict = closeShutdown, "disconnected", n.newUnreachableError(id, kinds.DeliveredNo, "it was disconnected; try again")
	}
	r.mu.Lock()
	r.keep = false
	r.lastGoodAddr, r.lastFailure = "", nil
	r.setProvedAddr(netip.AddrPort{})
	conns := slices.Clone(r.conns)
	r.finishDial(&dialFailure{Error: verdict})
	r.mu.Unlock()
	for _, c := range conns {
		c.close(code, reason)
	}
}
