package jsonrpc

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/kinds"
)

// FreePart is what an unfinished line or body may hold that nothing counts: most are
// smaller.
const FreePart = 64 << 10

// Unfinished bounds what has begun to arrive on many connections and is not whole yet,
// in bytes and in time. Where there is no room for more, what has been under way
// longest is cut off: who sends at once what it has to say is not kept out by who does
// not. Any number of goroutines may use it.
type Unfinished struct {
	most  int           // bytes of all, beyond what each has free
	stall time.Duration // between two reads
	whole time.Duration // from the first byte to the last

	mu      sync.Mutex // guards the rest, and what is in the parts
	changed sync.Cond  // some were given back, or one was cut off
	held    int
	leaving int     // of held: what those hold that were cut off
	open    []*Part // that hold something
}

// NewUnfinished makes an account of at most so many bytes. Nothing that may arrive is
// larger than that. What stalls for 10 s, or takes longer than 60 s, is ended.
func NewUnfinished(most int) *Unfinished {
	u := &Unfinished{most: most, stall: 10 * time.Second, whole: time.Minute}
	u.changed.L = &u.mu
	return u
}

// Held returns how many bytes are held beyond what is free.
func (u *Unfinished) Held() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.held
}

// Part is what has arrived on one connection of something that is not whole yet. One
// goroutine uses it, which calls Finish in the end.
type Part struct {
	of    *Unfinished
	limit func(time.Time) error // sets the read deadline
	began time.Time             // zero: nothing has
	bytes int
	cut   bool
}

// Open makes the part of a connection. setDeadline is its SetReadDeadline.
func (u *Unfinished) Open(setDeadline func(time.Time) error) *Part {
	return &Part{of: u, limit: setDeadline}
}

// Hold says that the part holds n bytes from now on. Where there is no room, it cuts
// off what began first, and blocks until that is gone, for as long as a read may take.
// The error is overloaded: it is this part that has been cut off, or what was has
// not gone.
func (p *Part) Hold(n int) error {
	n = max(n-FreePart, 0)
	u := p.of
	u.mu.Lock()
	defer u.mu.Unlock()
	p.begin(time.Now())
	more := n - p.bytes
	late, giveUp := false, (*time.Timer)(nil)
	for more > 0 && !p.cut && !late && u.held+more > u.most {
		if u.held-u.leaving+more > u.most {
			u.cutOldest(p)
			continue
		}
		if giveUp == nil {
			giveUp = time.AfterFunc(u.stall, func() {
				u.mu.Lock()
				defer u.mu.Unlock()
				late = true
				u.changed.Broadcast()
			})
			defer giveUp.Stop()
		}
		u.changed.Wait()
	}
	if p.cut || late {
		return errCut()
	}
	p.set(n)
	return nil
}

// cutOldest cuts off what began first, which may be the one that asks. The caller holds
// mu.
func (u *Unfinished) cutOldest(asks *Part) {
	oldest := asks
	for _, p := range u.open {
		if !p.cut && p.began.Before(oldest.began) {
			oldest = p
		}
	}
	oldest.cut = true
	u.leaving += oldest.bytes
	oldest.limit(time.Unix(1, 0)) // ends its read
	u.changed.Broadcast()
}

// Await is called before each read of what is to follow: it sets the time that there
// is for it.
func (p *Part) Await() error {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.cut {
		return errCut()
	}
	now := time.Now()
	p.begin(now)
	until := now.Add(p.of.stall)
	if last := p.began.Add(p.of.whole); last.Before(until) {
		until = last
	}
	return p.limit(until)
}

// Explain returns what a read that failed with err is to be told as.
func (p *Part) Explain(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	switch {
	case p.cut:
		return errCut()
	case p.began.IsZero():
		return err
	}
	return kinds.Errorf(kinds.Timeout, "read: what had begun to arrive stood still for %v, or took longer than %v in all: send each line or body at once", p.of.stall, p.of.whole)
}

// Finish says that what arrived is whole, or given up: the part holds nothing, has no
// deadline, and may begin again, also if it was to be cut off: what is whole is under
// way, and who sent it must not be told that it was refused. It may be called any number
// of times.
func (p *Part) Finish() {
	if p.began.IsZero() {
		return // nobody else writes it
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.set(0)
	p.began, p.cut = time.Time{}, false
	p.limit(time.Time{})
}

// Leave gives back what the part holds of something that nobody here reads to its end.
// Who takes the rest from the connection, to throw it away, waits for it as long as one
// read may take, and not at all if a read has failed.
func (p *Part) Leave(failed bool) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.set(0)
	p.began, p.cut = time.Time{}, false
	until := time.Now().Add(p.of.stall)
	if failed {
		until = time.Unix(1, 0)
	}
	p.limit(until)
}

// begin and set are called with mu held.
func (p *Part) begin(now time.Time) {
	if p.began.IsZero() {
		p.began = now
	}
}

func (p *Part) set(n int) {
	u := p.of
	switch {
	case p.bytes == 0 && n > 0:
		u.open = append(u.open, p)
	case p.bytes > 0 && n == 0:
		i := slices.Index(u.open, p)
		u.open = slices.Delete(u.open, i, i+1)
	}
	u.held += n - p.bytes
	if p.cut {
		u.leaving += n - p.bytes
	}
	if n < p.bytes {
		u.changed.Broadcast()
	}
	p.bytes = n
}

func errCut() error {
	e := kinds.Errorf(kinds.Overloaded, "read: unfinished lines and bodies hold all the room there is for them: send the whole of it at once, and fewer at a time")
	e.RetryAfterMS = 1000
	return e
}
