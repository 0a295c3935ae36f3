package peer

import (
	"net"
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
)

// handshakeRate limits by rate how many handshakes may begin before their source
// must prove its address with a Retry (RFC 9000, section 8.1.2): a flood costs one
// small packet each, and known peers, who answer the Retry, still connect.
type handshakeRate struct {
	mu      sync.Mutex // guards sources
	all     *rate.Limiter
	sources map[netip.Prefix]*rate.Limiter // at most maxSources, then begun anew
}

const (
	handshakesPerSecond          = 200
	handshakesPerSourcePerSecond = 5
	maxSources                   = 1024
)

func newHandshakeRate() *handshakeRate {
	return &handshakeRate{
		all:     rate.NewLimiter(handshakesPerSecond, handshakesPerSecond),
		sources: make(map[netip.Prefix]*rate.Limiter),
	}
}

// exceeded reports whether addr has to prove itself first.
func (h *handshakeRate) exceeded(addr net.Addr) bool {
	p := sourcePrefix(addr)
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.sources[p]
	if l == nil {
		if len(h.sources) >= maxSources {
			clear(h.sources)
		}
		l = rate.NewLimiter(handshakesPerSourcePerSecond, handshakesPerSourcePerSecond)
		h.sources[p] = l
	}
	return !l.Allow() || !h.all.Allow()
}

// sourcePrefix is what counts as one source: an IPv4 address, an IPv6 /56.
func sourcePrefix(addr net.Addr) netip.Prefix {
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := udp.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 56
	}
	p, _ := ip.Prefix(bits)
	return p
}

// gate bounds how many strangers are attended to at a time.
type gate struct {
	all, perSource int

	mu   sync.Mutex // guards what follows
	in   int
	from map[netip.Prefix]int
}

// enter reports whether addr may come in; who does, leaves.
func (g *gate) enter(addr net.Addr) bool {
	p := sourcePrefix(addr)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in >= g.all || g.from[p] >= g.perSource {
		return false
	}
	if g.from == nil {
		g.from = make(map[netip.Prefix]int)
	}
	g.in++
	g.from[p]++
	return true
}

func (g *gate) leave(addr net.Addr) {
	p := sourcePrefix(addr)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in--
	if g.from[p]--; g.from[p] == 0 {
		delete(g.from, p)
	}
}
