package measures

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/peer"
)

// maxMeasuredPeers bounds the peers that have series of their own. The first that are seen have
// them, until they are untrusted.
const maxMeasuredPeers = 64

// otherPeers is the name of all other peers together. It is no petname.
const otherPeers = "_other"

// peers counts messages by peer. Its methods may be called from any goroutine.
type peers struct {
	mu     sync.RWMutex // guards single
	single map[identity.ID]*messagesOfPeer
	others messagesOfPeer
}

// messagesOfPeer counts the messages from a peer, and those to it.
type messagesOfPeer struct{ in, out atomic.Uint64 }

func newPeers() *peers {
	return &peers{single: make(map[identity.ID]*messagesOfPeer)}
}

// count counts a message. It does nothing if p is nil.
func (p *peers) count(of identity.ID, inbound bool) {
	if p == nil {
		return
	}
	n := p.find(of)
	if n == nil {
		n = &p.others
	}
	if inbound {
		n.in.Add(1)
	} else {
		n.out.Add(1)
	}
}

// find returns the counts of a peer, nil if it is one of the others.
func (p *peers) find(id identity.ID) *messagesOfPeer {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.single[id]
}

// assign gives series of their own to trusted peers, as far as there is room, and takes them
// from all that are not trusted.
func (p *peers) assign(trusted []identity.Peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.single {
		if !slices.ContainsFunc(trusted, func(t identity.Peer) bool { return t.ID == id }) {
			delete(p.single, id)
		}
	}
	for _, t := range trusted {
		if p.single[t.ID] == nil && len(p.single) < maxMeasuredPeers {
			p.single[t.ID] = new(messagesOfPeer)
		}
	}
}

// measuredPeer is what metrics say of one peer, or of all others together.
type measuredPeer struct {
	name      string
	connected int
	messages  *messagesOfPeer
	now       peer.Peer // if it is connected
}

// list returns the peers that have series of their own, by name, and the others at the end.
func (p *peers) list(trusted []identity.Peer, findConnected func(identity.ID) (peer.Peer, bool)) []measuredPeer {
	p.assign(trusted)
	others := measuredPeer{name: otherPeers, messages: &p.others}
	var all []measuredPeer
	for _, t := range trusted {
		one := measuredPeer{name: t.Name, messages: p.find(t.ID)}
		var isConnected bool
		if one.now, isConnected = findConnected(t.ID); isConnected {
			one.connected = 1
		}
		if one.messages == nil {
			others.connected += one.connected
			continue
		}
		all = append(all, one)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	return append(all, others)
}

// ListPeerFamilies returns the metrics of single peers, none unless they are counted. findConnected returns
// a peer that is connected now.
func (m *Measures) ListPeerFamilies(trusted []identity.Peer, findConnected func(identity.ID) (peer.Peer, bool)) []metrics.Family {
	if m.peers == nil {
		return nil
	}
	peers := m.peers.list(trusted, findConnected)
	each := func(write func(t *metrics.Text, p measuredPeer, name metrics.Label)) func(*metrics.Text) {
		return func(t *metrics.Text) {
			for _, p := range peers {
				write(t, p, metrics.Label{Name: "peer", Value: p.name})
			}
		}
	}
	return []metrics.Family{
		{Name: "acpd_peer_connected", Type: metrics.Gauge, Help: "Whether a peer is connected, or how many of the others are.", Write: each(func(t *metrics.Text, p measuredPeer, name metrics.Label) {
			t.Add(float64(p.connected), name)
		})},
		{Name: "acpd_peer_rtt_seconds", Type: metrics.Gauge, Help: "Smoothed round-trip time of the connection to a peer.", Write: each(func(t *metrics.Text, p measuredPeer, name metrics.Label) {
			if p.name != otherPeers && p.connected > 0 {
				t.Add(p.now.RTT.Seconds(), name)
			}
		})},
		{Name: "acpd_peer_messages_total", Type: metrics.Counter, Help: "Messages and replies from a peer, and to it.", Write: each(func(t *metrics.Text, p measuredPeer, name metrics.Label) {
			t.Add(float64(p.messages.in.Load()), name, metrics.Label{Name: "direction", Value: string(client.In)})
			t.Add(float64(p.messages.out.Load()), name, metrics.Label{Name: "direction", Value: string(client.Out)})
		})},
	}
}
