package jsonrpc

import (
	"sync"

	"github.com/acpd/acpd/kinds"
)

// The load that each connection may have even if others take all the room.
const (
	ownRequests = 8
	ownBytes    = 32 << 10
)

// RequestLimit bounds the requests under way of many connections, in number and in bytes
// of their lines. A request is under way while it waits for its turn or is served. Each
// connection has a few requests free; the limit applies only to more than these. Any number
// of goroutines may use it.
type RequestLimit struct {
	maxRequests, maxBytes int // that all share

	mu     sync.Mutex
	shared requestLoad // of what all share
}

// requestLoad is a number of requests, and the bytes of their lines.
type requestLoad struct{ requests, bytes int }

// NewRequestLimit returns a limit of so many requests and bytes, beyond what each
// connection has free.
func NewRequestLimit(number, bytes int) *RequestLimit {
	return &RequestLimit{maxRequests: number, maxBytes: bytes}
}

// HeldLoad returns how many requests and bytes are counted.
func (u *RequestLimit) HeldLoad() (number, bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.shared.requests, u.shared.bytes
}

// adjustLoad adds to the load of a connection, or subtracts if more is negative. The error is
// overloaded if there is no room. A nil limit always has room.
func (u *RequestLimit) adjustLoad(all *requestLoad, more requestLoad) error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	next := requestLoad{all.requests + more.requests, all.bytes + more.bytes}
	before, after := all.countedPart(), next.countedPart()
	shared := requestLoad{u.shared.requests + after.requests - before.requests, u.shared.bytes + after.bytes - before.bytes}
	if shared.requests > max(u.shared.requests, u.maxRequests) || shared.bytes > max(u.shared.bytes, u.maxBytes) {
		e := kinds.Errorf(kinds.Overloaded, "call: agents on this socket have %d requests and %d bytes of them under way, of at most %d and %d: wait for answers before sending more", u.shared.requests, u.shared.bytes, u.maxRequests, u.maxBytes)
		e.RetryAfterMS = 1000
		return e.WithDelivered(kinds.DeliveredNo)
	}
	u.shared, *all = shared, next
	return nil
}

// countedPart returns the part of a load that exceeds what each connection has free.
func (l requestLoad) countedPart() requestLoad {
	return requestLoad{max(l.requests-ownRequests, 0), max(l.bytes-ownBytes, 0)}
}
