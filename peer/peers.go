package peer

import (
	"net/netip"
	"slices"
	"sort"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// findState returns the state of a peer, or nil.
func (n *Node) findState(id identity.ID) *peerState {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.peers[id]
}

// findOrCreateState returns the state of a peer that is or was trusted. It makes it on first use.
func (n *Node) findOrCreateState(id identity.ID) *peerState {
	if state := n.findState(id); state != nil {
		return state
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if state := n.peers[id]; state != nil {
		return state
	}
	state := &peerState{
		node: n, id: id,
		envelopes: n.accounts.envelopes.NewShare(id, envelopeChunk),
		replies:   n.accounts.replies.NewShare(id, envelopeChunk),
		streams:   n.accounts.streams.NewShare(id, streamChunk),
		rounds:    newPathRounds(n.self, id),
	}
	n.peers[id] = state
	return state
}

// lockState is findOrCreateState for a caller to whom it matters that the node has not forgotten the
// state. The caller unlocks its mu.
func (n *Node) lockState(id identity.ID) *peerState {
	for {
		state := n.findOrCreateState(id)
		state.mu.Lock()
		if !state.gone {
			return state
		}
		state.mu.Unlock() // it is out of n.peers, for it was taken out under this lock
	}
}

// listShares returns what the peer has of the rows that are counted for every message.
func (state *peerState) listShares() []*budget.Share {
	return []*budget.Share{state.envelopes, state.replies, state.streams}
}

const (
	envelopeChunk = 64 << 10 // most envelopes are far smaller
	streamChunk   = 8
)

// findTrustedState returns the state of the peer that a call is for. The error says that it
// is not trusted: no state is kept of strangers.
func (n *Node) findTrustedState(id identity.ID) (*peerState, *kinds.Error) {
	if state := n.findState(id); state != nil {
		return state, nil
	}
	if _, ok := n.cfg.Trust.FindPeer(id); !ok {
		return nil, n.newUnknownPeerError(id)
	}
	return n.findOrCreateState(id), nil
}

// Peer describes a connected peer.
type Peer struct {
	ID       identity.ID
	Addr     string // remote address of the connection in use
	Path     Path   // its path
	RTT      time.Duration
	Claim    string // what the peer calls itself
	Software string // name and version of its program: a claim
	Boot     wire.Boot
	Features []string
}

// Peers returns the connected peers, ordered by id.
func (n *Node) Peers() []Peer {
	all := []Peer{}
	for _, state := range n.listStates() {
		if c := state.current.Load(); c != nil {
			all = append(all, c.describePeer())
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID.Compare(all[j].ID) < 0 })
	return all
}

// CountStreams returns how many streams of peers are being served, and how many of this node's
// exchanges and bridges are open.
func (n *Node) CountStreams() (in, out int) {
	for _, state := range n.listStates() {
		in += int(state.streams.Used())
		out += int(state.callSlots.exchanges.Load() + state.callSlots.bulk.Load())
	}
	return in, out
}

// IsAnyConnected reports whether a peer is connected that matches. match must not block, nor call n.
func (n *Node) IsAnyConnected(match func(identity.ID) bool) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for id, state := range n.peers {
		if state.current.Load() != nil && match(id) {
			return true
		}
	}
	return false
}

// Peer returns a connected peer.
func (n *Node) Peer(id identity.ID) (Peer, bool) {
	if state := n.findState(id); state != nil {
		if c := state.current.Load(); c != nil {
			return c.describePeer(), true
		}
	}
	return Peer{}, false
}

// HeardAt returns when a packet of a peer last came on a connection that has not ended, also on one that takes
// no new calls because one side is shutting down. It returns zero without a connection.
func (n *Node) HeardAt(id identity.ID) (at time.Time) {
	state := n.findState(id)
	if state == nil {
		return at
	}
	for _, c := range state.listConns() {
		age := time.Since(n.epoch) - time.Duration(c.lastHeard.Load())
		if heard := time.Now().Add(-age); heard.After(at) {
			at = heard
		}
	}
	return at
}

// Connect keeps a connection to a trusted peer: it dials now, and again whenever
// the last connection ends. Call it too when a new address or another way to the peer is known:
// calls from then on do not fail by what was found out before.
func (n *Node) Connect(id identity.ID) {
	p, waited := n.pending.remove(id)
	state := n.lockState(id)
	state.keep = true
	state.sharedFailure, state.hostRefusedAddr = nil, ""
	state.backoff = 0
	if waited && state.lastGoodAddr == "" {
		state.rememberAddr(p.Path, p.Addr)
	}
	state.mu.Unlock()
	state.ensureReconnecting()
}

// ForgetAddr forgets the address at which a peer has proved its key, and what came of dialling it. A connection that
// is there stays, and a dial that runs: its failure may name the address for some seconds more.
func (n *Node) ForgetAddr(id identity.ID) {
	if state := n.findState(id); state != nil {
		state.mu.Lock()
		state.lastGoodAddr, state.lastDialFailure = "", nil
		state.mu.Unlock()
	}
}

// TellAgents tells a peer that an agent has come for which a message of the peer was refused. It does not block. The
// word is lost if the peer is not connected or does not want it, and may be if much is on its way to the peer.
func (n *Node) TellAgents(id identity.ID) {
	if state := n.findState(id); state != nil {
		if c := state.current.Load(); c != nil && slices.Contains(c.peerHello.Features, FeatureAgents) {
			c.control.trySendItem(&wire.Agents{})
		}
	}
}

// Disconnect closes every connection to a peer at once, also those whose hello is
// awaited. Call it after the trust store is changed: the reason that the peer gets depends on the store.
func (n *Node) Disconnect(id identity.ID) {
	n.pending.remove(id)
	state := n.findState(id)
	if state == nil {
		return
	}
	code, reason, failure := closeNotTrusted, "not trusted any more", n.newUnknownPeerError(id)
	if _, trusted := n.cfg.Trust.FindPeer(id); trusted {
		code, reason, failure = closeShutdown, "disconnected", n.newUnreachableError(id, kinds.DeliveredNo, "it was disconnected; try again")
	}
	state.mu.Lock()
	state.keep = false
	state.lastGoodAddr, state.lastDialFailure, state.refusesUs = "", nil, false
	state.setProvedAddr(netip.AddrPort{})
	conns, greeting := slices.Clone(state.conns), slices.Clone(state.greeting)
	state.finishDial(&dialFailure{Error: failure})
	state.mu.Unlock()
	for _, c := range conns {
		c.close(code, reason)
	}
	if code == closeNotTrusted && n.mayDial(id) {
		code, reason = closeOverloaded, "dial again" // its hello may show a valid certificate
	}
	for _, c := range greeting {
		c.close(code, reason)
	}
}
