package peer

import (
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// remote returns the state kept for a peer that is or was trusted, made on first
// use.
func (n *Node) remote(id identity.ID) *remote {
	n.mu.RLock()
	r := n.remotes[id]
	n.mu.RUnlock()
	if r != nil {
		return r
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.remotes[id]; r != nil {
		return r
	}
	r = &remote{
		node: n, id: id,
		envelopes: n.rows.envelopes.Share(id, envelopeChunk),
		replies:   n.rows.replies.Share(id, envelopeChunk),
		streams:   n.rows.streams.Share(id, streamChunk),
	}
	n.remotes[id] = r
	return r
}

const (
	envelopeChunk = 64 << 10 // most envelopes are far smaller
	streamChunk   = 8
)

// reach returns the state kept for a peer that a call is for, which must be
// trusted: strangers take no room.
func (n *Node) reach(id identity.ID) (*remote, *kinds.Error) {
	n.mu.RLock()
	r := n.remotes[id]
	n.mu.RUnlock()
	if r != nil {
		return r, nil
	}
	if _, ok := n.cfg.Trust.Get(id); !ok {
		return nil, n.unknown(id)
	}
	return n.remote(id), nil
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
	all := make([]Peer, 0, len(n.remotes))
	for _, r := range n.remotes {
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
	for other, r := range n.remotes {
		if other != id && r.current.Load() != nil {
			return true
		}
	}
	return false
}

// Peer returns a connected peer.
func (n *Node) Peer(id identity.ID) (Peer, bool) {
	n.mu.RLock()
	r := n.remotes[id]
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
