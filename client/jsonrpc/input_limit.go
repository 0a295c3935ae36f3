package jsonrpc

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/acpd/acpd/kinds"
)

// FreeInput is the size in bytes up to which an unfinished line or body is not counted.
// Most are smaller.
const FreeInput = 64 << 10

// InputLimit bounds unfinished lines and bodies of many connections, in bytes and in
// time. If there is no room for more, it cuts off the one that began first, so that a
// sender that stalls does not keep out a sender that does not. Any number of goroutines
// may use it.
type InputLimit struct {
	maxBytes int           // bytes of all, beyond what each has free
	maxStall time.Duration // between two reads
	maxTime  time.Duration // from the first byte to the last

	mu        sync.Mutex // guards the rest, and what is in the parts
	changed   sync.Cond  // some were given back, or one was cut off
	held      int
	heldByCut int                    // of held: what those hold that were cut off
	holding   map[*PartialInput]bool // those that hold something
}

// NewInputLimit returns a limit of maxBytes in all. No line or body may be larger than
// that. One that stalls for 10 s, or takes longer than 60 s, is ended.
func NewInputLimit(most int) *InputLimit {
	l := &InputLimit{maxBytes: most, maxStall: 10 * time.Second, maxTime: time.Minute, holding: make(map[*PartialInput]bool)}
	l.changed.L = &l.mu
	return l
}

// HeldBytes returns how many bytes are held beyond what is free.
func (l *InputLimit) HeldBytes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// PartialInput is the unfinished line or body of one connection. One goroutine uses it
// and calls Finish in the end.
type PartialInput struct {
	limit       *InputLimit
	setDeadline func(time.Time) error // sets the read deadline
	started     time.Time             // zero: nothing has
	bytes       int
	cut         bool
}

// NewPartialInput returns the PartialInput of a connection. setDeadline is the SetReadDeadline of
// the connection.
func (l *InputLimit) NewPartialInput(setDeadline func(time.Time) error) *PartialInput {
	return &PartialInput{limit: l, setDeadline: setDeadline}
}

// Reserve sets the number of bytes that the input holds to n. If there is no room, it cuts off
// the inputs that began first and blocks until they are gone, for as long as a read may
// take. The error is overloaded: this input was cut off, or the others were not gone in
// time.
func (p *PartialInput) Reserve(n int) error {
	n = max(n-FreeInput, 0)
	l := p.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	p.recordStart(time.Now())
	more := n - p.bytes
	late, giveUp := false, (*time.Timer)(nil)
	for more > 0 && !p.cut && !late && l.held+more > l.maxBytes {
		if l.held-l.heldByCut+more > l.maxBytes {
			l.interruptOldest(p)
			continue
		}
		if giveUp == nil {
			giveUp = time.AfterFunc(l.maxStall, func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				late = true
				l.changed.Broadcast()
			})
			defer giveUp.Stop()
		}
		l.changed.Wait()
	}
	if p.cut || late {
		return newNoRoomError()
	}
	p.setBytes(n)
	return nil
}

// interruptOldest cuts off the input that began first, which may be asks. The caller holds mu.
func (l *InputLimit) interruptOldest(asks *PartialInput) {
	oldest := asks
	for p := range l.holding {
		if !p.cut && p.started.Before(oldest.started) {
			oldest = p
		}
	}
	oldest.cut = true
	l.heldByCut += oldest.bytes
	oldest.setDeadline(time.Unix(1, 0)) // ends its read
	l.changed.Broadcast()
}

// AllowRead sets the deadline of the next read. It is called before each read. The error
// is overloaded if the input was cut off.
func (p *PartialInput) AllowRead() error {
	p.limit.mu.Lock()
	defer p.limit.mu.Unlock()
	if p.cut {
		return newNoRoomError()
	}
	now := time.Now()
	p.recordStart(now)
	until := now.Add(p.limit.maxStall)
	if last := p.started.Add(p.limit.maxTime); last.Before(until) {
		until = last
	}
	return p.setDeadline(until)
}

// ExplainError returns what to tell the sender if a read has failed with err.
func (p *PartialInput) ExplainError(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	p.limit.mu.Lock()
	defer p.limit.mu.Unlock()
	switch {
	case p.cut:
		return newNoRoomError()
	case p.started.IsZero():
		return err
	}
	return kinds.Errorf(kinds.Timeout, "read: what had begun to arrive stood still for %v, or took longer than %v in all: send each line or body at once", p.limit.maxStall, p.limit.maxTime)
}

// Finish ends an input that is whole or given up: it holds nothing, has no deadline and
// may begin again. This is so even if it was to be cut off: a whole request is under way,
// and its sender must not get an error for it. Finish may be called any number of
// times.
func (p *PartialInput) Finish() {
	if p.started.IsZero() {
		return // nobody else writes it
	}
	p.reset(time.Time{})
}

// Discard gives back what the input holds of a body that nobody here reads to its end.
// The caller that drops the rest of the body waits for it as long as one read may take,
// and not at all if a read has failed.
func (p *PartialInput) Discard(failed bool) {
	if failed {
		p.reset(time.Unix(1, 0))
	} else {
		p.reset(time.Now().Add(p.limit.maxStall))
	}
}

// reset gives back what the input holds, and sets the deadline of the next read.
func (p *PartialInput) reset(deadline time.Time) {
	p.limit.mu.Lock()
	defer p.limit.mu.Unlock()
	p.setBytes(0)
	p.started, p.cut = time.Time{}, false
	p.setDeadline(deadline)
}

// recordStart and setBytes are called with mu held.
func (p *PartialInput) recordStart(now time.Time) {
	if p.started.IsZero() {
		p.started = now
	}
}

func (p *PartialInput) setBytes(n int) {
	l := p.limit
	if n > 0 {
		l.holding[p] = true
	} else {
		delete(l.holding, p)
	}
	l.held += n - p.bytes
	if p.cut {
		l.heldByCut += n - p.bytes
	}
	if n < p.bytes {
		l.changed.Broadcast()
	}
	p.bytes = n
}

func newNoRoomError() error {
	e := kinds.Errorf(kinds.Overloaded, "read: unfinished lines and bodies hold all the room there is for them: send the whole of it at once, and fewer at a time")
	e.RetryAfterMS = 1000
	return e
}
