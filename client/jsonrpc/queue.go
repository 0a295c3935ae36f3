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

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// The bounds of the queue (local API, section 1), and how long the other end may read
// nothing.
const (
	maxQueueLines      = 1024
	maxQueueBytes      = 4 << 20
	stallLimit         = 5 * time.Second
	maxWrite           = 256 << 10 // bytes of one write, and of a line's buffer that is used again
	maxBatch           = 32 << 10  // lines up to this are written together
	maxWritesForOthers = 16        // of a sender that writes lines of others
)

// lineBatch is a buffer of whole lines on their way out.
type lineBatch struct {
	text      []byte
	spliced   []byte // a payload that is written from where it lies; nil: none
	splicedAt int    // before which byte of text
	lines     int
	turn      uint64 // of its first line

	writer ObjectWriter // of appendValue, which would allocate one
}

var lineBatches = sync.Pool{New: func() any { return new(lineBatch) }}

func (b *lineBatch) returnToPool() {
	if cap(b.text) <= maxWrite {
		*b = lineBatch{text: b.text[:0]}
		lineBatches.Put(b)
	}
}

// size is that of all lines in bytes.
func (b *lineBatch) size() int { return len(b.text) + len(b.spliced) }

// sliceFrom returns what follows the first n bytes, up to where it lies elsewhere. It is not
// empty unless n is the size.
func (b *lineBatch) sliceFrom(n int) []byte {
	switch behind := b.splicedAt + len(b.spliced); {
	case n >= behind:
		return b.text[n-len(b.spliced):]
	case n >= b.splicedAt:
		return b.spliced[n-b.splicedAt:]
	}
	return b.text[n:b.splicedAt]
}

// appendPartsFrom appends what follows the first n bytes.
func (b *lineBatch) appendPartsFrom(parts [][]byte, n int) [][]byte {
	for n < b.size() {
		part := b.sliceFrom(n)
		parts = append(parts, part)
		n += len(part)
	}
	return parts
}

// appendValue appends a value, as [AppendValue] does. With splice, a large payload is not copied.
func (b *lineBatch) appendValue(v any, splice bool) (err error) {
	w, ok := v.(memberWriter)
	if !ok || !splice {
		b.text, err = AppendValue(b.text, v)
		return err
	}
	m := &b.writer
	*m = ObjectWriter{b: b.text, start: len(b.text), splices: true}
	w.WriteMembers(m)
	b.text, err = m.closeObject()
	b.spliced, b.splicedAt = m.spliced, m.splicedAt
	*m = ObjectWriter{}
	return err
}

// lineQueue writes lines to a connection. A sender that queues a line while nobody writes
// becomes the writer. It lets other senders that are ready queue their lines, then writes
// all of them for as long as the socket takes them. A goroutine writes what the socket
// does not take at once, and ends with the queue. So no sender waits for a peer that does
// not read, and lines that come together go out in one write.
//
// Each line is sent for a peer, or for nobody. If more than a batch waits, peers take
// turns by bytes: a short line of one peer is sent before the backlog of another. The
// lines of one peer keep their order.
type lineQueue struct {
	conn    net.Conn
	rawConn syscall.RawConn // nil: not a socket, writeUntilEmpty writes all
	onError func(error)     // called once, without the lock, when writing fails
	room    *UnreadRoom     // Options.UnreadRoom
	maxRoom int64           // Options.MaxUnread

	// Of the writer, for one attempt.
	writeOnce      func(fd uintptr) bool
	attempt        [][]byte // parts that follow one another
	attemptWritten int

	mu           sync.Mutex
	changed      sync.Cond              // room, idle or an error
	writing      bool                   // somebody writes
	batches      []*lineBatch           // by turn
	turn         uint64                 // of what is written now
	nextTurns    map[identity.ID]uint64 // the turn of each peer's next line; of those that took one
	firstWritten int                    // bytes of the first batch that are written
	lineCount    int                    // in queue
	byteCount    int                    // in queue, not written
	waitingBytes int                    // of lines that wait to be queued
	heldRoom     int64                  // of room, without room.first
	heldFirst    int64                  // of room.first
	err          error
}

func (q *lineQueue) initQueue(conn net.Conn, fail func(error)) {
	q.conn, q.onError = conn, fail
	q.changed.L = &q.mu
	if s, ok := conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			q.rawConn = raw
		}
	}
	q.writeOnce = func(fd uintptr) bool {
		n, err := writeParts(int(fd), q.attempt)
		if err == nil {
			q.attemptWritten = n
		}
		return true // what was not taken is queued, errors show there
	}
}

// isFullFor reports whether the queue is at its bound for a line of peer. If other peers
// have filled it, a peer that is at most a batch ahead of what is written now still has
// room for a line.
func (q *lineQueue) isFullFor(peer identity.ID) bool {
	if q.lineCount < maxQueueLines && q.byteCount < maxQueueBytes {
		return false
	}
	return q.byteCount <= maxBatch || q.nextTurns[peer] > q.turn+maxBatch
}

// enqueueAndWrite sends one line for a peer and takes the buffer over. mode is what it
// does if the queue is full; while it waits for room, ctx ends the wait. othersSend is set
// if other goroutines may be about to send too.
func (q *lineQueue) enqueueAndWrite(ctx context.Context, peer identity.ID, line *lineBatch, mode whenFull, othersSend bool) error {
	yieldFirst := othersSend && line.size() < maxBatch
	q.mu.Lock()
	if err := q.waitForRoom(ctx, peer, line.size(), mode); err != nil {
		q.mu.Unlock()
		line.returnToPool()
		return err
	}
	q.insertByTurn(peer, line)
	writer := !q.writing
	q.writing = true
	q.mu.Unlock()
	if !writer {
		return nil
	}
	if yieldFirst {
		runtime.Gosched()
	}
	q.writeWithoutBlocking()
	return nil
}

// waitForRoom returns nil when a line of size bytes may be queued. Only waitWhenFull waits, until
// there is room, the queue has an error, or ctx ends. A line that is not short takes room meanwhile.
// The caller holds mu.
func (q *lineQueue) waitForRoom(ctx context.Context, peer identity.ID, size int, mode whenFull) (err error) {
	if q.err != nil || mode == insertWhenFull || q.hasRoomFor(peer, size) {
		return q.err
	}
	if mode == failWhenFull {
		return ErrFull
	}
	waits := 0
	if size > shortLine {
		if !q.takeRoom(size) {
			return newUnreadError(size)
		}
		waits = size
	}
	q.waitingBytes += waits
	defer func() {
		if q.waitingBytes -= waits; err != nil { // else insertByTurn adds as much to byteCount
			q.returnRoom()
		}
	}()
	defer context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})()
	for q.err == nil && !q.hasRoomFor(peer, size-waits) {
		if err := ctx.Err(); err != nil {
			return err
		}
		q.changed.Wait()
	}
	return q.err
}

// whenFull is what a sender does if the queue is full.
type whenFull uint8

const (
	waitWhenFull   whenFull = iota
	failWhenFull            // with ErrFull
	insertWhenFull          // beyond the bound
)

// insertByTurn adds a line at its turn, or to the batch before that if both are small. A
// batch may grow while it is written: the writer writes what it saw, and then the rest.
func (q *lineQueue) insertByTurn(peer identity.ID, line *lineBatch) {
	at := len(q.batches)
	switch {
	case q.byteCount > maxBatch || line.size() > maxBatch:
		line.turn = q.assignTurn(peer, line.size())
		for at > 1 && q.batches[at-1].turn > line.turn {
			at--
		}
	case at > 0:
		q.turn = q.batches[at-1].turn
		line.turn = q.turn
	}
	q.lineCount++
	q.byteCount += line.size()
	if at > 0 {
		if last := q.batches[at-1]; last.size()+line.size() <= maxBatch {
			last.text = append(last.text, line.text...)
			last.lines++
			line.returnToPool()
			return
		}
	}
	q.batches = slices.Insert(q.batches, at, line)
}

// assignTurn returns the turn of a peer's line of n bytes: how many bytes of each peer go
// before it. The turns of a peer count its bytes, beginning at the turn of what is
// written when the peer comes (start-time fair queueing).
func (q *lineQueue) assignTurn(peer identity.ID, n int) uint64 {
	turn := max(q.nextTurns[peer], q.turn)
	if q.nextTurns == nil {
		q.nextTurns = make(map[identity.ID]uint64)
	}
	q.nextTurns[peer] = turn + uint64(n)
	return turn
}

// writeWithoutBlocking writes what the socket takes at once and leaves the rest to
// writeUntilEmpty. It does so too if other senders keep adding lines.
func (q *lineQueue) writeWithoutBlocking() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for range maxWritesForOthers {
		if q.err != nil || len(q.batches) == 0 {
			q.stopWriting()
			return
		}
		first := q.batches[0]
		size := first.size() - q.firstWritten
		q.attempt = first.appendPartsFrom(q.attempt[:0], q.firstWritten)
		q.mu.Unlock()
		n := q.tryWrite()
		q.mu.Lock()
		if q.removeWritten(n); n < size {
			break
		}
	}
	go q.writeUntilEmpty()
}

// tryWrite writes what the socket takes at once of attempt, and returns how many bytes that was.
func (q *lineQueue) tryWrite() int {
	q.attemptWritten = 0
	if q.rawConn != nil {
		_ = q.rawConn.Write(q.writeOnce)
	}
	clear(q.attempt) // or it would keep payloads alive
	return q.attemptWritten
}

// writeParts writes what a socket takes at once, with one system call.
func writeParts(fd int, parts [][]byte) (n int, err error) {
	if len(parts) == 1 {
		return syscall.Write(fd, parts[0])
	}
	return unix.Writev(fd, parts)
}

// writeUntilEmpty writes until the queue is empty or a write fails. It blocks while the
// other end does not read.
func (q *lineQueue) writeUntilEmpty() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.err == nil && len(q.batches) > 0 {
		text := q.batches[0].sliceFrom(q.firstWritten)
		q.mu.Unlock()
		n, err := q.writeWithinStallLimit(text[:min(len(text), maxWrite)])
		if err != nil {
			q.onError(err)
			q.failFurtherSends(err)
		}
		q.mu.Lock()
		q.removeWritten(n)
	}
	q.stopWriting()
}

// removeWritten removes n written bytes from the queue. The caller holds mu.
func (q *lineQueue) removeWritten(n int) {
	q.firstWritten += n
	q.byteCount -= n
	q.returnRoom()
	if first := q.batches[0]; q.firstWritten == first.size() {
		q.lineCount -= first.lines
		q.batches, q.firstWritten = slices.Delete(q.batches, 0, 1), 0
		first.returnToPool()
	}
	if len(q.batches) == 0 {
		q.turn = 0
		clear(q.nextTurns)
	} else {
		q.turn = max(q.turn, q.batches[0].turn)
	}
	q.changed.Broadcast()
}

// stopWriting ends the turn of the writer: the next sender becomes the writer. The caller
// holds mu.
func (q *lineQueue) stopWriting() {
	q.writing = false
	q.changed.Broadcast()
}

// writeWithinStallLimit writes to the connection. It fails with errStalled if the other
// end takes nothing for stallLimit. Linux reports progress only in steps of up to 48 KiB.
func (q *lineQueue) writeWithinStallLimit(part []byte) (n int, err error) {
	if err := q.conn.SetWriteDeadline(time.Now().Add(stallLimit)); err != nil {
		return 0, err
	}
	n, err = q.conn.Write(part)
	q.conn.SetWriteDeadline(time.Time{}) // or the next attempt fails when it has passed
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if n == 0 { // Linux tells of room only when three quarters of the socket's buffer are empty
		q.attempt = append(q.attempt[:0], part)
		n = q.tryWrite()
	}
	if n == 0 {
		return 0, errStalled
	}
	return n, nil
}

var errStalled = ownwords.New("the other end has read nothing, or too little, for 5 s")

// failFurtherSends makes every later send fail with cause.
func (q *lineQueue) failFurtherSends(cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = newClosedError(cause, kinds.DeliveredNo)
	}
	q.changed.Broadcast()
}

// waitUntilWritten returns when nothing is left to write, or when writing has failed.
func (q *lineQueue) waitUntilWritten() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing {
		q.changed.Wait()
	}
}
