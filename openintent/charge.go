package openintent

import (
	"errors"
	"sync"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
)

// toldBytes are what hosts have said for a call, in bytes that they are charged for.
type toldBytes struct {
	mu    sync.Mutex // guards bytes
	bytes map[identity.ID]int64
}

// take charges a host for what it says, until give.
func (t *toldBytes) take(from *budget.Account, host string, bytes int) error {
	peer := peerOf(host)
	if err := from.Take(peer, int64(bytes)); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytes == nil {
		t.bytes = make(map[identity.ID]int64)
	}
	t.bytes[peer] += int64(bytes)
	return nil
}

// give gives back what hosts are charged for until now.
func (t *toldBytes) give(to *budget.Account) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for peer, bytes := range t.bytes {
		to.Give(peer, bytes)
	}
	t.bytes = nil
}

// hold charges a host for what it says, until letGo.
func (c *Call) Hold(host string, bytes int) error { return c.told.take(c.e.unread, host, bytes) }

// holdAnswer is hold for an answer that the caller gets.
func (c *Call) HoldAnswer(host string, bytes int) error { return noRoomForAnswer(c.Hold(host, bytes)) }

// Charge opens a charge for what hosts answer that no call waits for. hold is as that of a
// [Parcel]; letGo, to be called once, gives back what it has taken.
func (e *Engine) Charge() (hold func(host string, bytes int) error, letGo func()) {
	told := new(toldBytes)
	return func(host string, bytes int) error { return noRoomForAnswer(told.take(e.unread, host, bytes)) }, func() { told.give(e.unread) }
}

// noRoomForAnswer is the refusal of a host's answer. What was asked may be done all the same.
func noRoomForAnswer(err error) error {
	err = exceeded(err, codeOverloaded, "the intent's host has too many answers on their way here; look what was done when they have come, then try again")
	if e, ok := errors.AsType[*Error](err); ok {
		return e.With("delivered", "unknown")
	}
	return err
}

// letGo gives back what hosts are charged for until now.
func (c *Call) LetGo() { c.told.give(c.e.unread) }
