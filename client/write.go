package client

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/acpd/acpd/kinds"
)

// The bounds of a connection's outgoing queue (local API, section 1), and how
// long its peer may read nothing.
const (
	maxQueueLines = 1024
	maxQueueBytes = 4 << 20
	stallLimit    = 5 * time.Second
	chunk         = 256 << 10
)

// outbox writes lines to a connection. Whoever sends a line writes it at once
// where nobody else is writing and the socket takes it; what is left over is
// queued and written by a goroutine that lives as long as the queue. So no sender
// ever waits for a peer that does not read.
type outbox struct {
	conn net.Conn
	raw  syscall.RawConn // nil: not a socket, everything is queued
	fail func(error)     // called once, without the lock, when writing fails

	// Of who set busy, for one attempt.
	try  func(fd uintptr) bool
	line []byte
	n    int

	mu      sync.Mutex
	changed sync.Cond // room, idle or an error
	busy    bool      // somebody writes
	queue   []byte
	sent    int // bytes of queue that are written
	lines   int // in queue, not written
	err     error
}

func (o *outbox) init(conn net.Conn, fail func(error)) {
	o.conn, o.fail = conn, fail
	o.changed.L = &o.mu
	if s, ok := conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			o.raw = raw
		}
	}
	o.try = func(fd uintptr) bool {
		n, err := syscall.Write(int(fd), o.line)
		if err == nil {
			o.n = n
		}
		return true // what was not taken is queued, errors show there
	}
}

// full reports whether the queue is at its bound.
func (o *outbox) full() bool { return o.lines >= maxQueueLines || len(o.queue)-o.sent >= maxQueueBytes }

// put sends one line. While the queue is full it waits, until ctx ends; with
// refuse it returns ErrFull instead; with force it queues all the same. The line
// is not kept.
func (o *outbox) put(ctx context.Context, line []byte, mode putMode) error {
	o.mu.Lock()
	if mode != force && o.full() && o.err == nil {
		if mode == refuse {
			o.mu.Unlock()
			return ErrFull
		}
		if err := o.await(ctx, func() bool { return !o.full() }); err != nil {
			o.mu.Unlock()
			return err
		}
	}
	if o.err != nil {
		defer o.mu.Unlock()
		return o.err
	}
	if o.busy {
		o.enqueue(line)
		o.mu.Unlock()
		return nil
	}
	o.busy = true
	o.mu.Unlock()

	rest := line[o.attempt(line):]

	o.mu.Lock()
	defer o.mu.Unlock()
	if len(rest) > 0 {
		o.queue = slices.Concat(rest, o.queue)
		o.lines++
	}
	if len(o.queue) == 0 {
		o.busy = false
		o.changed.Broadcast()
		return nil
	}
	go o.flush()
	return nil
}

type putMode uint8

const (
	wait putMode = iota
	refuse
	force
)

// await waits under the lock until ready, an error, or the end of ctx.
func (o *outbox) await(ctx context.Context, ready func() bool) error {
	defer context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.changed.Broadcast()
	})()
	for o.err == nil && !ready() {
		if err := ctx.Err(); err != nil {
			return err
		}
		o.changed.Wait()
	}
	return nil
}

func (o *outbox) enqueue(line []byte) {
	o.queue = append(o.queue, line...)
	o.lines++
}

// attempt writes what the socket takes without waiting.
func (o *outbox) attempt(line []byte) int {
	if o.raw == nil {
		return 0
	}
	o.line, o.n = line, 0
	_ = o.raw.Write(o.try)
	o.line = nil
	return o.n
}

// flush writes the queue until it is empty.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && o.sent < len(o.queue) {
		part := o.queue[o.sent:min(len(o.queue), o.sent+chunk)]
		o.mu.Unlock()
		n, err := o.write(part)
		if err != nil {
			o.fail(err)
			o.close(err)
		}
		o.mu.Lock()
		o.lines -= bytes.Count(part[:n], []byte{'\n'})
		if o.sent += n; o.sent >= maxQueueBytes/4 {
			o.queue, o.sent = o.queue[:copy(o.queue, o.queue[o.sent:])], 0
		}
		o.changed.Broadcast()
	}
	if o.queue, o.sent, o.lines = o.queue[:0], 0, 0; cap(o.queue) > kept {
		o.queue = nil
	}
	o.busy = false
	o.changed.Broadcast()
}

// write waits as long as the peer takes at least something every stallLimit.
func (o *outbox) write(part []byte) (n int, err error) {
	if err := o.conn.SetWriteDeadline(time.Now().Add(stallLimit)); err != nil {
		return 0, err
	}
	n, err = o.conn.Write(part)
	o.conn.SetWriteDeadline(time.Time{}) // or the next attempt fails when it has passed
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if n > 0 {
			return n, nil
		}
		return 0, errStalled
	}
	return n, err
}

var errStalled = errors.New("the other end has read nothing for 5 s")

// close makes every put fail from now on.
func (o *outbox) close(cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = closed(cause, kinds.DeliveredNo)
	}
	o.changed.Broadcast()
}

// drain returns when nothing is left to write.
func (o *outbox) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.busy {
		o.changed.Wait()
	}
}
