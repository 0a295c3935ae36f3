package openintent

import (
	"crypto/sha256"
	"errors"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
)

// What other daemons may hold of this one, by their keys: see package budget. The
// agents here are bounded by what the rules allow alone.

const (
	codeOverloaded = "overloaded"
	codeTooMany    = "too_many"
)

// peerOf returns the key of another daemon.
func peerOf(home string) identity.ID {
	id, err := identity.ParseID(home)
	if err != nil { // not proven: whoever it is counts as one
		return sha256.Sum256([]byte(home))
	}
	return id
}

// exceeded is the refusal of what the budget has no room for.
func exceeded(err error, code, remedy string) error {
	x, ok := errors.AsType[*budget.Exceeded](err)
	if !ok {
		return err
	}
	return Refuse(code, "%v: %s", x, remedy).With("row", x.Row.Name)
}

// AnswerRoom is what a change may answer beyond the length of its request: the object
// that it has changed.
const AnswerRoom = maxTask

// take charges the caller's daemon for memory that its request needs until its answer
// has been taken.
func (c *Call) Charge(n int) error {
	if c.Caller.Home == "" || n <= 0 {
		return nil
	}
	if err := c.e.unread.Take(peerOf(c.Caller.Home), int64(n)); err != nil {
		return exceeded(err, codeOverloaded, "take the answers to your other requests, then come again")
	}
	c.held += n
	return nil
}

// give gives back n of what was taken.
func (c *Call) give(n int) {
	if n > 0 && c.held > 0 {
		c.e.unread.Give(peerOf(c.Caller.Home), int64(n))
		c.held -= n
	}
}

// settle makes what is held that of an answer of so many bytes. A call that has changed
// something is answered whatever is held.
func (c *Call) Settle(size int, changed bool) error {
	more := size - c.held
	c.give(-more)
	if !changed || more <= 0 || c.Caller.Home == "" {
		return c.Charge(more)
	}
	c.e.unread.Add(peerOf(c.Caller.Home), int64(more))
	c.held += more
	return nil
}

// JSON is an answer in parts, in their order. Long ones are shared with what they
// are of.
type JSON [][]byte

func (p JSON) Size() (n int) {
	for _, b := range p {
		n += len(b)
	}
	return n
}

// list appends what stands between the members of an array, and the next member.
func (p JSON) Add(first bool, member ...[]byte) JSON {
	if !first {
		p = append(p, comma)
	}
	return append(p, member...)
}

var comma = []byte{','}
