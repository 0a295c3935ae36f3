package peer

import (
	"net"
	"net/netip"
	"sync"

	"github.com/acpd/acpd/identity"
)

// source is what has one rate, or one share of a limit: on UDP an IPv4 address, an IPv6 /56 or a
// port of it; on other links a text that they give.
type source struct {
	netip.Prefix
	port uint16
	text string
}

// newHandshakeSource returns the source of handshakes from a UDP address. On loopback that is a port,
// because all daemons of a machine share its address.
func newHandshakeSource(addr net.Addr) source {
	s := newHostSource(addr)
	if at := toAddrPort(addr); at.Addr().IsLoopback() {
		s.port = at.Port()
	}
	return s
}

// toAddrPort returns a UDP address in a form that can be compared; else the zero value.
func toAddrPort(addr net.Addr) netip.AddrPort {
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	a := udp.AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// newHostSource returns the source that a UDP address belongs to: its IPv4 address or IPv6 /56.
func newHostSource(addr net.Addr) source {
	ip := toAddrPort(addr).Addr().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 56
	}
	p, _ := ip.Prefix(bits)
	return source{Prefix: p}
}

// provedAddrs holds the UDP addresses at which peers last proved their keys.
type provedAddrs struct {
	mu sync.Mutex // guards by
	by map[netip.AddrPort]identity.ID
}

// replace stores the address at which a peer proved its key, in place of the one before. The zero
// value for now forgets it.
func (a *provedAddrs) replace(id identity.ID, before, now netip.AddrPort) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by[before] == id {
		delete(a.by, before)
	}
	if now.IsValid() {
		if a.by == nil {
			a.by = make(map[netip.AddrPort]identity.ID)
		}
		a.by[now] = id
	}
}

// knownPeer reports whether a peer last proved its key at addr, and returns its source: that
// port.
func (a *provedAddrs) knownPeer(addr net.Addr) (source, bool) {
	at := toAddrPort(addr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.by[at]; !ok {
		return source{}, false
	}
	s := newHostSource(addr)
	s.port = at.Port()
	return s, true
}
