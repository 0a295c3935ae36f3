package jsonrpc

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// The bounds of a connection's outgoing queue (local API, section 1), and how
// long its peer may read nothing.
const (
	maxQueueLines = 1024
	maxQueueBytes = 4 << 20
	stallLimit    = 5 * time.Second
	chunk         = 256 << 10
	batchSize     = 32 << 10 // lines up to this are written together
	maxTurns      = 16       // of a sender that writes what others send
)

// batch is a buffer of whole lines on their way out.
type batch struct {
	text  []byte
	lines int
	turn  uint64 // of its first line
}

var batchPool = sync.Pool{New: func() any { return new(batch) }}

func (b *batch) release() {
	if cap(b.text) <= kept {
		b.text, b.lines, b.turn = b.text[:0], 0, 0
		batchPool.Put(b)
	}
}

// outbox writes lines to a connection. Who sends a line while nobody writes is the
// writer: it lets others that are ready queue theirs, then writes all that there
// is, as long as the socket takes it. What it does not take is written by a
// goroutine that lives as long as the queue. So no sender ever waits for a peer
// that does not read, and what comes together goes out in one write.
//
// Lines are sent for peers, or for nobody. Where more than a batch waits, peers take
// turns by bytes: the line of one that sends little goes before what another has piled
// up. The lines of one peer keep their order.
type outbox struct {
	conn net.Conn
	raw  syscall.RawConn // nil: not a socket, all is left to flush
	fail func(error)     // called once, without the lock, when writing fails

	// Of who set busy, for one attempt.
	try  func(fd uintptr) bool
	text []byte
	n    int

	mu      sync.Mutex
	changed sync.Cond              // room, idle or an error
	busy    bool                   // somebody writes
	queue   []*batch               // by turn
	turn    uint64                 // of what is written now
	next    map[identity.ID]uint64 // the turn of each peer's next line; of those that took one
	sent    int                    // bytes of the first batch that are written
	lines   int                    // in queue
	bytes   int                    // in queue, not written
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
		n, err := syscall.Write(int(fd), o.text)
		if err == nil {
			o.n = n
		}
		return true // what was not taken is queued, errors show there
	}
}

// full reports whether the queue is at its bound. Where others have filled it, a peer
// that is at most a batch ahead of what is written now still has room for a line.
func (o *outbox) full(peer identity.ID) bool {
	if o.lines < maxQueueLines && o.bytes < maxQueueBytes {
		return false
	}
	return o.bytes <= batchSize || o.next[peer] > o.turn+batchSize
}

// put sends one line for a peer, which becomes the outbox's own. While the queue is full it
// waits, until ctx ends; with refuse it returns ErrFull instead; with force it
// queues all the same. company says that others may be about to send too.
func (o *outbox) put(ctx context.Context, peer identity.ID, line *batch, mode putMode, company bool) error {
	worth := company && len(line.text) < batchSize
	o.mu.Lock()
	if err := o.admit(ctx, peer, mode); err != nil {
		o.mu.Unlock()
		line.release()
		return err
	}
	o.enqueue(peer, line)
	writer := !o.busy
	o.busy = true
	o.mu.Unlock()
	if !writer {
		return nil
	}
	if worth {
		runtime.Gosched()
	}
	o.start()
	return nil
}

// admit returns nil, under the lock, when a line may be queued.
func (o *outbox) admit(ctx context.Context, peer identity.ID, mode putMode) error {
	if mode != force && o.full(peer) && o.err == nil {
		if mode == refuse {
			return ErrFull
		}
		if err := o.await(ctx, func() bool { return !o.full(peer) }); err != nil {
			return err
		}
	}
	return o.err
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

// enqueue adds a line at its turn, to the batch before it where that is small. A batch
// may grow while it is being written: the writer sees what it had, and then the rest.
func (o *outbox) enqueue(peer identity.ID, line *batch) {
	at := len(o.queue)
	switch {
	case o.bytes > batchSize || len(line.text) > batchSize:
		line.turn = o.takeTurn(peer, len(line.text))
		for at > 1 && o.queue[at-1].turn > line.turn {
			at--
		}
	case at > 0:
		o.turn = o.queue[at-1].turn
		line.turn = o.turn
	}
	o.lines++
	o.bytes += len(line.text)
	if at > 0 {
		if last := o.queue[at-1]; len(last.text)+len(line.text) <= batchSize {
			last.text = append(last.text, line.text...)
			last.lines++
			line.release()
			return
		}
	}
	o.queue = slices.Insert(o.queue, at, line)
}

// takeTurn returns the turn of a peer's line of n bytes: how much of each peer goes before
// it. A peer's turns count its bytes, from the turn of what is written when it comes
// (start-time fair queueing).
func (o *outbox) takeTurn(peer identity.ID, n int) uint64 {
	turn := max(o.next[peer], o.turn)
	if o.next == nil {
		o.next = make(map[identity.ID]uint64)
	}
	o.next[peer] = turn + uint64(n)
	return turn
}

// start writes the queue as far as the socket takes it at once, and leaves the
// rest to flush, also when others keep adding to it.
func (o *outbox) start() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range maxTurns {
		if o.err != nil || len(o.queue) == 0 {
			o.rest()
			return
		}
		text := o.queue[0].text[o.sent:]
		o.mu.Unlock()
		n := o.attempt(text)
		o.mu.Lock()
		if o.wrote(n); n < len(text) {
			break
		}
	}
	go o.flush()
}

// attempt writes what the socket takes without waiting.
func (o *outbox) attempt(text []byte) int {
	if o.raw == nil {
		return 0
	}
	o.text, o.n = text, 0
	_ = o.raw.Write(o.try)
	o.text = nil
	return o.n
}

// flush writes the queue until it is empty.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && len(o.queue) > 0 {
		text := o.queue[0].text[o.sent:]
		o.mu.Unlock()
		n, err := o.write(text[:min(len(text), chunk)])
		if err != nil {
			o.fail(err)
			o.close(err)
		}
		o.mu.Lock()
		o.wrote(n)
	}
	o.rest()
}

// wrote takes n bytes that are written from the queue.
func (o *outbox) wrote(n int) {
	o.sent += n
	o.bytes -= n
	if first := o.queue[0]; o.sent == len(first.text) {
		o.lines -= first.lines
		o.queue, o.sent = slices.Delete(o.queue, 0, 1), 0
		first.release()
	}
	if len(o.queue) == 0 {
		o.turn = 0
		clear(o.next)
	} else {
		o.turn = max(o.turn, o.queue[0].turn)
	}
	o.changed.Broadcast()
}

// rest ends the writer's work.
func (o *outbox) rest() {
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
