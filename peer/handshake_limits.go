package peer

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"golang.org/x/time/rate"

	"github.com/acpd/acpd/identity"
)

// handshakeLimits bounds the incoming handshakes that are not complete, by rate and by number.
// Each of a flood costs one small packet, and there is room left for known peers.
type handshakeLimits struct {
	unproved, proved, known *handshakeRate

	open atomic.Int32 // begun, and neither complete nor given up

	mu       sync.Mutex // guards provedBy
	provedBy map[netip.AddrPort]identity.ID
}

const (
	// Handshakes that begin at once, in a second. Beyond, a source must prove its
	// address with a Retry (RFC 9000, section 8.1.2); known peers answer it.
	handshakesPerSecond          = 200
	handshakesPerSourcePerSecond = 5

	// Handshakes of a source that has proved its address, which proves no more: it
	// need not continue any. One host dials a peer every 0.1 s at most.
	provedPerSourcePerSecond = 20

	maxHalfOpen = 256 // 30 KB each, for 4 s at most
	maxUnproved = 128 // of them; then addresses are to be proved first
	maxSources  = 1024
)

func newHandshakeLimits() *handshakeLimits {
	return &handshakeLimits{
		unproved: newHandshakeRate(handshakesPerSourcePerSecond, handshakesPerSecond),
		proved:   newHandshakeRate(provedPerSourcePerSecond, rate.Inf),
		known:    newHandshakeRate(provedPerSourcePerSecond, rate.Inf),
		provedBy: make(map[netip.AddrPort]identity.ID),
	}
}

// mustProveAddr reports whether a source has to prove its address before a handshake
// begins (RFC 9000, section 8.1.2).
func (h *handshakeLimits) mustProveAddr(addr net.Addr) bool {
	return h.open.Load() >= maxUnproved || h.unproved.countAndCheckExceeded(newHandshakeSource(addr))
}

var errTooMany = errors.New("too many handshakes at a time")

type handshakeKey struct{}

// beginHandshake counts a handshake until endHandshake is called with the context that it
// returns, or that is done. The error is errTooMany. A peer at the address where it last
// proved its key has a rate of its own and twice the room: no other machine can prove
// that address.
func (h *handshakeLimits) beginHandshake(ctx context.Context, from *quic.ClientInfo) (context.Context, error) {
	limit, most := h.proved, int32(maxHalfOpen)
	s := newHandshakeSource(from.RemoteAddr)
	if at := toAddrPort(from.RemoteAddr); from.AddrVerified && h.isProvedAddr(at) {
		limit, most = h.known, 2*maxHalfOpen
		s.port = at.Port()
	}
	if h.open.Load() >= most || from.AddrVerified && limit.countAndCheckExceeded(s) {
		return nil, errTooMany
	}
	h.open.Add(1)
	end := sync.OnceFunc(func() { h.open.Add(-1) })
	context.AfterFunc(ctx, end)
	return context.WithValue(ctx, handshakeKey{}, end), nil
}

// endHandshake counts the handshake of a connection as complete.
func (h *handshakeLimits) endHandshake(ctx context.Context) {
	if end, ok := ctx.Value(handshakeKey{}).(func()); ok {
		end()
	}
}

// replaceProvedAddr stores the address at which a peer proved its key, in place of the one
// before. The zero value for now forgets it.
func (h *handshakeLimits) replaceProvedAddr(id identity.ID, before, now netip.AddrPort) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.provedBy[before] == id {
		delete(h.provedBy, before)
	}
	if now.IsValid() {
		h.provedBy[now] = id
	}
}

// isProvedAddr reports whether a peer last proved its key at a.
func (h *handshakeLimits) isProvedAddr(a netip.AddrPort) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.provedBy[a]
	return ok
}

// handshakeRate limits by rate how many handshakes may begin.
type handshakeRate struct {
	mu        sync.Mutex // guards sources
	all       *rate.Limiter
	perSource int
	sources   map[handshakeSource]*rate.Limiter // at most maxSources, then begun anew
}

// handshakeSource is an IPv4 address or an IPv6 /56, or a port of it: what has one rate.
type handshakeSource struct {
	netip.Prefix
	port uint16
}

func newHandshakeRate(perSource int, all rate.Limit) *handshakeRate {
	return &handshakeRate{
		all:       rate.NewLimiter(all, int(min(all, handshakesPerSecond))),
		perSource: perSource,
		sources:   make(map[handshakeSource]*rate.Limiter),
	}
}

// countAndCheckExceeded counts one handshake of s and reports whether the rate does not allow it.
func (h *handshakeRate) countAndCheckExceeded(s handshakeSource) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.sources[s]
	if l == nil {
		if len(h.sources) >= maxSources {
			clear(h.sources)
		}
		l = rate.NewLimiter(rate.Limit(h.perSource), h.perSource)
		h.sources[s] = l
	}
	return !l.Allow() || !h.all.Allow()
}

// newHandshakeSource returns the source of addr. On loopback that is a port, because all daemons of
// a machine share its address.
func newHandshakeSource(addr net.Addr) handshakeSource {
	s := handshakeSource{Prefix: toSourcePrefix(addr)}
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

// toSourcePrefix returns the IPv4 address or IPv6 /56 of a UDP address.
func toSourcePrefix(addr net.Addr) netip.Prefix {
	ip := toAddrPort(addr).Addr().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 56
	}
	p, _ := ip.Prefix(bits)
	return p
}

// strangerLimit bounds how many strangers are served at a time, in all and of each source.
type strangerLimit struct {
	all, perSource int

	mu   sync.Mutex // guards what follows
	in   int
	from map[netip.Prefix]int
}

// tryAddStranger counts a stranger at addr and reports whether there is room. If there is, the
// caller calls removeStranger in the end.
func (g *strangerLimit) tryAddStranger(addr net.Addr) bool {
	p := toSourcePrefix(addr)
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

func (g *strangerLimit) removeStranger(addr net.Addr) {
	p := toSourcePrefix(addr)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in--
	if g.from[p]--; g.from[p] == 0 {
		delete(g.from, p)
	}
}
