package jsonrpc

import (
	"sync"

	"github.com/acpd/acpd/kinds"
)

// What each connection may have under way, whatever others have.
const (
	ownRequests = 8
	ownBytes    = 32 << 10
)

// Underway bounds the requests of many connections that are being served or wait for their
// turn, in number and in the bytes of their lines. What a connection has beyond a little of
// its own is of what all share. Any number of goroutines may use it.
type Underway struct {
	number, bytes int // that all share

	mu   sync.Mutex
	held load // of what all share
}

// load is a number of requests, and the bytes of their lines.
type load struct{ number, bytes int }

// NewUnderway makes an account of at most so many requests, and bytes, beyond what each
// connection has of its own.
func NewUnderway(number, bytes int) *Underway { return &Underway{number: number, bytes: bytes} }

// Held returns how many requests are under way beyond what each connection has of its own,
// and how many bytes beyond that.
func (u *Underway) Held() (number, bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.held.number, u.held.bytes
}

// enter adds a request of so many bytes to those of a connection. The error is overloaded:
// there is no room.
func (u *Underway) enter(all *load, bytes int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	next := load{all.number + 1, all.bytes + bytes}
	more := next.shared().less(all.shared())
	if more.number > 0 && u.held.number+more.number > u.number || more.bytes > 0 && u.held.bytes+more.bytes > u.bytes {
		e := kinds.Errorf(kinds.Overloaded, "call: agents on this socket have %d requests and %d bytes of them under way, of at most %d and %d: wait for answers before sending more", u.held.number, u.held.bytes, u.number, u.bytes)
		e.RetryAfterMS = 1000
		return e.WithDelivered(kinds.DeliveredNo)
	}
	u.hold(all, next)
	return nil
}

// leave takes a request out of those of its connection.
func (u *Underway) leave(all *load, bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.hold(all, load{all.number - 1, all.bytes - bytes})
}

// end takes out what a connection has left that has ended.
func (u *Underway) end(all *load) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.hold(all, load{})
}

// hold is called with mu held.
func (u *Underway) hold(all *load, next load) {
	more := next.shared().less(all.shared())
	u.held.number, u.held.bytes = u.held.number+more.number, u.held.bytes+more.bytes
	*all = next
}

// shared is what of a connection's load is of what all share.
func (l load) shared() load { return load{max(l.number-ownRequests, 0), max(l.bytes-ownBytes, 0)} }

func (l load) less(o load) load { return load{l.number - o.number, l.bytes - o.bytes} }
