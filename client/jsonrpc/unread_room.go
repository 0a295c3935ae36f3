package jsonrpc

import (
	"golang.org/x/sync/semaphore"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

const (
	freeUnread = 64 << 10 // of each connection, in addition to the room
	shortLine  = 1 << 10  // an answer up to this waits where a longer one is refused
)

// UnreadRoom bounds the bytes of lines that the other ends have not taken, of all connections that share it and beyond
// 64 KiB of each. It has as much again for lines that find nothing waiting on their connection: so who reads gets a
// long line though others fill the room.
type UnreadRoom struct {
	*semaphore.Weighted                     // of lines that find others waiting
	first               *semaphore.Weighted // of lines that find nothing waiting
}

// NewUnreadRoom returns a room of size bytes, and of as much again for first lines.
func NewUnreadRoom(size int64) *UnreadRoom {
	return &UnreadRoom{semaphore.NewWeighted(size), semaphore.NewWeighted(size)}
}

// hasRoomFor reports whether a line of size bytes may be queued, and takes the room for it. The caller holds mu.
func (q *lineQueue) hasRoomFor(peer identity.ID, size int) bool {
	return !q.isFullFor(peer) && (q.takeFirstRoom(size) || q.takeRoom(size))
}

// takeFirstRoom takes room for a line that finds nothing waiting. The caller holds mu.
func (q *lineQueue) takeFirstRoom(size int) bool {
	if q.byteCount+q.waitingBytes > 0 || q.room == nil {
		return false
	}
	more := int64(size-freeUnread) - q.heldFirst
	if more > 0 {
		if !q.room.first.TryAcquire(more) {
			return false
		}
		q.heldFirst += more
	}
	return true
}

// takeRoom takes room that all share for n bytes more, and reports whether there is some and this connection may
// take it. The caller holds mu.
func (q *lineQueue) takeRoom(n int) bool {
	if q.room == nil {
		return true
	}
	more := int64(q.byteCount+q.waitingBytes+n-freeUnread) - q.heldFirst - q.heldRoom
	if more <= 0 {
		return true
	}
	if q.heldRoom+more > q.maxRoom || !q.room.TryAcquire(more) {
		return false
	}
	q.heldRoom += more
	return true
}

// returnRoom gives back what the lines that wait do not need, that of all first. The caller holds mu.
func (q *lineQueue) returnRoom() {
	less := q.heldRoom + q.heldFirst - int64(max(q.byteCount+q.waitingBytes-freeUnread, 0))
	if less <= 0 {
		return
	}
	if n := min(less, q.heldRoom); n > 0 {
		q.room.Release(n)
		q.heldRoom -= n
		less -= n
	}
	if less > 0 {
		q.room.first.Release(less)
		q.heldFirst -= less
	}
}

// dropUnwritten gives back the room of what was never written. Nobody writes any more.
func (q *lineQueue) dropUnwritten() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.batches, q.lineCount, q.byteCount = nil, 0, 0
	q.returnRoom()
}

func newUnreadError(size int) error {
	e := kinds.Errorf(kinds.Overloaded, "call: there is no room for the answer of %d bytes until agents on this socket read earlier ones: read answers before sending more", size)
	e.RetryAfterMS = 1000
	return e.WithDelivered(kinds.DeliveredUnknown)
}
