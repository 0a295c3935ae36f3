package jsonrpc

import (
	"sync"

	"github.com/acpd/acpd/kinds"
)

// What each connection may have under way, whatever other connections have.
const (
	ownRequests = 8
	ownBytes    = 32 << 10
)

// RequestLimit bounds the requests under way of many connections, in number and in bytes
// of their lines. A request is under way while it waits for its turn or is served. Each
// connection has a few requests free; the limit counts what goes beyond them. Any number
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

// Held returns how many requests and bytes are counted.
func (u *RequestLimit) Held() (number, bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.shared.requests, u.shared.bytes
}

// add adds a request of so many bytes to the load of its connection. The error is
// overloaded if there is no room.
func (u *RequestLimit) add(all *requestLoad, bytes int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	next := requestLoad{all.requests + 1, all.bytes + bytes}
	more := next.beyondOwn().minus(all.beyondOwn())
	if more.requests > 0 && u.shared.requests+more.requests > u.maxRequests || more.bytes > 0 && u.shared.bytes+more.bytes > u.maxBytes {
		e := kinds.Errorf(kinds.Overloaded, "call: agents on this socket have %d requests and %d bytes of them under way, of at most %d and %d: wait for answers before sending more", u.shared.requests, u.shared.bytes, u.maxRequests, u.maxBytes)
		e.RetryAfterMS = 1000
		return e.WithDelivered(kinds.DeliveredNo)
	}
	u.setLoad(all, next)
	return nil
}

// remove takes a request that has ended out of the load of its connection.
func (u *RequestLimit) remove(all *requestLoad, bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.setLoad(all, requestLoad{all.requests - 1, all.bytes - bytes})
}

// removeAll takes out all requests of a connection that has ended.
func (u *RequestLimit) removeAll(all *requestLoad) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.setLoad(all, requestLoad{})
}

// setLoad replaces the load of a connection. The caller holds mu.
func (u *RequestLimit) setLoad(all *requestLoad, next requestLoad) {
	more := next.beyondOwn().minus(all.beyondOwn())
	u.shared.requests, u.shared.bytes = u.shared.requests+more.requests, u.shared.bytes+more.bytes
	*all = next
}

// beyondOwn returns the part of a load that the limit counts.
func (l requestLoad) beyondOwn() requestLoad {
	return requestLoad{max(l.requests-ownRequests, 0), max(l.bytes-ownBytes, 0)}
}

func (l requestLoad) minus(o requestLoad) requestLoad {
	return requestLoad{l.requests - o.requests, l.bytes - o.bytes}
}
