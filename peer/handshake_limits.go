package peer

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"golang.org/x/time/rate"

	"github.com/acpd/acpd/internal/ownwords"
)

// handshakeLimits bounds the incoming handshakes of a link that are not complete, by rate and by
// number. Each of a flood costs one small packet, and there is room left for known peers.
type handshakeLimits struct {
	unproved, proved, known *handshakeRate

	sourceOf  func(net.Addr) source         // what has one rate
	knownPeer func(net.Addr) (source, bool) // the source of a known peer, if one is at that address; the address is proved

	// Of those that may turn out to be peers each has a rate of its own once it has proved its address,
	// also where others share one.
	maybePeers *handshakeRate
	maybePeer  func(net.Addr) (source, bool) // nil if there are no peers

	maxHalfOpen int32 // half open; known peers may have twice as many

	open atomic.Int32 // begun, and neither complete nor given up
}

const (
	// Handshakes that begin at once, in a second. Beyond, a source must prove its
	// address with a Retry (RFC 9000, section 8.1.2); known peers answer it.
	handshakesPerSecond          = 200
	handshakesPerSourcePerSecond = 5

	// Handshakes of a source that has proved its address, which proves no more: it
	// need not continue any. One host dials a peer every 0.1 s at most.
	provedPerSourcePerSecond = 20

	maxHalfOpen = 256 // on UDP; 30 KB each, for 4 s at most
	maxSources  = 1024

	maxHalfOpenOnLink = 64
)

func newHandshakeLimits(sourceOf func(net.Addr) source, knownPeer func(net.Addr) (source, bool)) *handshakeLimits {
	return &handshakeLimits{
		unproved:    newHandshakeRate(handshakesPerSourcePerSecond, handshakesPerSecond),
		proved:      newHandshakeRate(provedPerSourcePerSecond, rate.Inf),
		known:       newHandshakeRate(provedPerSourcePerSecond, rate.Inf),
		maybePeers:  newHandshakeRate(handshakesPerSourcePerSecond, handshakesPerSecond),
		sourceOf:    sourceOf,
		knownPeer:   knownPeer,
		maxHalfOpen: maxHalfOpen,
	}
}

// mustProveAddr reports whether a source has to prove its address before a handshake
// begins (RFC 9000, section 8.1.2): if it begins many, or half of those that may be half open are.
func (h *handshakeLimits) mustProveAddr(addr net.Addr) bool {
	return h.open.Load() >= h.maxHalfOpen/2 || h.unproved.countAndCheckExceeded(h.sourceOf(addr))
}

var errTooMany = ownwords.New("too many handshakes at a time")

// handshakeKey is the key of what takes back that a handshake is no longer open when its context ends.
type handshakeKey struct{}

// beginHandshake adds a handshake to those that are open until endHandshake is called with the context that it
// returns, or that context is done. The error is errTooMany. A known peer has a rate of its own and
// twice the room: no other machine can prove its address.
func (h *handshakeLimits) beginHandshake(ctx context.Context, from *quic.ClientInfo) (context.Context, error) {
	limit, most := h.proved, h.maxHalfOpen
	s := h.sourceOf(from.RemoteAddr)
	if from.AddrVerified {
		if known, ok := h.knownPeer(from.RemoteAddr); ok {
			limit, most, s = h.known, 2*h.maxHalfOpen, known
		} else if h.maybePeer != nil {
			if maybe, ok := h.maybePeer(from.RemoteAddr); ok {
				limit, s = h.maybePeers, maybe
			}
		}
	}
	if h.open.Load() >= most || from.AddrVerified && limit.countAndCheckExceeded(s) {
		return nil, errTooMany
	}
	h.open.Add(1)
	return context.WithValue(ctx, handshakeKey{}, context.AfterFunc(ctx, func() { h.open.Add(-1) })), nil
}

// endHandshake counts the handshake of a connection as complete.
func (h *handshakeLimits) endHandshake(ctx context.Context) {
	if stop, ok := ctx.Value(handshakeKey{}).(func() bool); ok && stop() { // else its context has ended first
		h.open.Add(-1)
	}
}

// handshakeRate limits by rate how many handshakes may begin.
type handshakeRate struct {
	mu        sync.Mutex // guards sources
	all       *rate.Limiter
	perSource int
	sources   map[source]*rate.Limiter // at most maxSources, then begun anew
}

func newHandshakeRate(perSource int, all rate.Limit) *handshakeRate {
	return &handshakeRate{
		all:       rate.NewLimiter(all, int(min(all, handshakesPerSecond))),
		perSource: perSource,
		sources:   make(map[source]*rate.Limiter),
	}
}

// countAndCheckExceeded adds one handshake of s and reports whether it exceeds the rate.
func (h *handshakeRate) countAndCheckExceeded(s source) bool {
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
