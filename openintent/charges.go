package openintent

import (
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent/object"
)

// Package budget bounds what other daemons may hold of this one, by their keys. Agents here are
// bounded only by the rules.

// hostCharges counts the bytes that hosts are charged for in a call.
type hostCharges struct {
	mu    sync.Mutex // guards bytes
	bytes map[identity.ID]int64
}

// chargeHost charges a host for bytes, until refund.
func (t *hostCharges) chargeHost(from *budget.Account, host string, bytes int) error {
	peer := peerAccountKey(host)
	if err := from.Reserve(peer, int64(bytes)); err != nil {
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

// refundAll takes back what hosts are charged for.
func (t *hostCharges) refundAll(to *budget.Account) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for peer, bytes := range t.bytes {
		to.Release(peer, bytes)
	}
	t.bytes = nil
}

// ChargeHost charges a host for bytes of its answer, until [Call.RefundHosts].
func (c *Call) ChargeHost(host string, bytes int) error {
	return c.told.chargeHost(c.e.unread, host, bytes)
}

// ChargeHostForAnswer is [Call.ChargeHost] for an answer that goes to the caller.
func (c *Call) ChargeHostForAnswer(host string, bytes int) error {
	return convertAnswerError(c.ChargeHost(host, bytes))
}

// NewHostCharge opens a charge for answers of hosts for which no call waits. hold is as in a
// [ForwardedRequest]. letGo, to be called once, takes back all that hold has charged.
func (e *Engine) NewHostCharge() (hold func(host string, bytes int) error, letGo func()) {
	told := new(hostCharges)
	return func(host string, bytes int) error { return convertAnswerError(told.chargeHost(e.unread, host, bytes)) }, func() { told.refundAll(e.unread) }
}

// convertAnswerError makes a refusal of an error about a host's answer. What was asked may be
// done all the same.
func convertAnswerError(err error) error {
	err = convertBudgetError(err, object.CodeOverloaded, "the intent's host has too many answers on their way here; look what was done when they have come, then try again")
	if e, ok := errors.AsType[*object.Error](err); ok {
		return e.WithMember("delivered", "unknown")
	}
	return err
}

// RefundHosts takes back all that hosts are charged for.
func (c *Call) RefundHosts() { c.told.refundAll(c.e.unread) }

// peerAccountKey returns the key of another daemon, or a hash if home is no id.
func peerAccountKey(home string) identity.ID {
	id, err := identity.ParseID(home)
	if err != nil { // not proven
		return sha256.Sum256([]byte(home))
	}
	return id
}

// convertBudgetError makes a refusal of an error of the budget, and returns other errors as they
// are.
func convertBudgetError(err error, code, remedy string) error {
	x, ok := errors.AsType[*budget.ExceededError](err)
	if !ok {
		return err
	}
	return object.NewError(code, "%v: %s", x, remedy).WithMember("row", x.Row.Name)
}

// AnswerRoom bounds by how much the answer to a change is longer than the request: it holds the
// object that was changed.
const AnswerRoom = object.MaxTask

// ChargeCaller charges the caller's daemon for memory that the request needs until its answer has
// been taken.
func (c *Call) ChargeCaller(n int) error {
	if c.Caller.Home == "" || n <= 0 {
		return nil
	}
	if err := c.e.unread.Reserve(peerAccountKey(c.Caller.Home), int64(n)); err != nil {
		return convertBudgetError(err, object.CodeOverloaded, "take the answers to your other requests, then come again")
	}
	c.held += n
	return nil
}

// refundCaller takes back n bytes of the charge.
func (c *Call) refundCaller(n int) {
	if n > 0 && c.held > 0 {
		c.e.unread.Release(peerAccountKey(c.Caller.Home), int64(n))
		c.held -= n
	}
}

// AdjustCallerCharge makes the charge that of an answer of so many bytes. A call that has changed
// something is answered even if there is no room.
func (c *Call) AdjustCallerCharge(size int, changed bool) error {
	more := size - c.held
	c.refundCaller(-more)
	if !changed || more <= 0 || c.Caller.Home == "" {
		return c.ChargeCaller(more)
	}
	c.e.unread.AddUnchecked(peerAccountKey(c.Caller.Home), int64(more))
	c.held += more
	return nil
}
