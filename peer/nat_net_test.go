package peer

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/quic-go/quic-go/testutils/simnet"
)

// natRouter is a network of hosts, some of them behind NATs. Private addresses are reached in
// their own network alone. It records where hosts send packets.
type natRouter struct {
	mu    sync.Mutex
	nodes map[netip.AddrPort]simnet.PacketReceiver
	nats  []*nat
	sent  map[netip.AddrPort][]netip.AddrPort // by sender, each receiver once
	cut   func(from, to netip.AddrPort) bool  // drops packets that leave a network; nil: none
}

// nat translates addresses, as a router at home or of a carrier does (RFC 4787). It lets a packet
// in only from an address to which it let one out before.
type nat struct {
	inside    netip.Prefix
	public    netip.Addr
	symmetric bool // another port for each address that is sent to; else the host's own port, if it is free

	router *natRouter
	out    map[natKey]uint16
	in     map[uint16]*natMapping
	next   uint16
}

// natKey is what has one port: a host's socket, behind a symmetric NAT towards one address.
type natKey struct{ from, to netip.AddrPort }

type natMapping struct {
	from    netip.AddrPort
	allowed map[netip.AddrPort]bool
}

func newNATRouter() *natRouter {
	return &natRouter{nodes: make(map[netip.AddrPort]simnet.PacketReceiver), sent: make(map[netip.AddrPort][]netip.AddrPort)}
}

func (r *natRouter) nat(inside, public string, symmetric bool) *nat {
	n := &nat{inside: netip.MustParsePrefix(inside), public: netip.MustParseAddr(public), symmetric: symmetric, router: r, next: 40000}
	n.forget()
	r.nats = append(r.nats, n)
	return n
}

// forget drops all mappings, as a NAT does that is started again.
func (n *nat) forget() {
	n.router.mu.Lock()
	defer n.router.mu.Unlock()
	n.out, n.in = make(map[natKey]uint16), make(map[uint16]*natMapping)
}

func (r *natRouter) AddNode(addr net.Addr, receiver simnet.PacketReceiver) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[toAddrPort(addr)] = receiver
}

func (r *natRouter) SendPacket(p simnet.Packet) error {
	if receiver, q := r.route(p); receiver != nil {
		receiver.RecvPacket(q)
	}
	return nil
}

// route returns who gets a packet, and the packet as it arrives; nil: nobody does.
func (r *natRouter) route(p simnet.Packet) (simnet.PacketReceiver, simnet.Packet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from, to := toAddrPort(p.From), toAddrPort(p.To)
	if !slices.Contains(r.sent[from], to) {
		r.sent[from] = append(r.sent[from], to)
	}
	behind := func(a netip.AddrPort) *nat {
		if i := slices.IndexFunc(r.nats, func(n *nat) bool { return n.inside.Contains(a.Addr()) }); i >= 0 {
			return r.nats[i]
		}
		return nil
	}
	source, target := behind(from), behind(to)
	switch {
	case target != nil && target != source:
		return nil, p // there is no way into a private network
	case source != nil && target == nil:
		from = netip.AddrPortFrom(source.public, source.mapOut(from, to))
	}
	if r.cut != nil && target == nil && r.cut(from, to) {
		return nil, p
	}
	for _, n := range r.nats {
		if n.public != to.Addr() {
			continue
		}
		m := n.in[to.Port()]
		if m == nil || !m.allowed[from] {
			return nil, p
		}
		to = m.from
	}
	p.From, p.To = net.UDPAddrFromAddrPort(from), net.UDPAddrFromAddrPort(to)
	return r.nodes[to], p
}

// mapOut returns the port from which the world sees a packet, and lets answers in.
func (n *nat) mapOut(from, to netip.AddrPort) uint16 {
	key := natKey{from: from}
	if n.symmetric {
		key.to = to
	}
	port, known := n.out[key]
	if !known {
		if port = from.Port(); n.symmetric || n.in[port] != nil {
			n.next++
			port = n.next
		}
		n.out[key], n.in[port] = port, &natMapping{from: from, allowed: make(map[netip.AddrPort]bool)}
	}
	n.in[port].allowed[to] = true
	return port
}

// targets returns the addresses to which a host has sent packets.
func (r *natRouter) targets(from net.Addr) []netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sent[toAddrPort(from)])
}
