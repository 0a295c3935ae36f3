package jsonrpc

import (
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

const (
	freeUnread = 64 << 10 // of each connection, beside Options.UnreadRoom
	shortLine  = 1 << 10  // an answer up to this waits where a longer one is refused
)

// hasRoomFor reports whether a line of size bytes may be queued, and takes the room for it. A
// connection of which nothing waits always has it. The caller holds mu.
func (q *lineQueue) hasRoomFor(peer identity.ID, size int) bool {
	return !q.isFullFor(peer) && (q.byteCount+q.waitingBytes == 0 || q.takeRoom(size))
}

// takeRoom takes room that all share for n bytes more, and reports whether there is some and this connection may
// take it. The caller holds mu.
func (q *lineQueue) takeRoom(n int) bool {
	if q.room == nil {
		return true
	}
	more := int64(q.byteCount+q.waitingBytes+n-freeUnread) - q.heldRoom
	if more <= 0 {
		return true
	}
	if q.heldRoom+more > q.maxRoom || !q.room.TryAcquire(more) {
		return false
	}
	q.heldRoom += more
	return true
}

// returnRoom gives back what the lines that wait do not need. The caller holds mu.
func (q *lineQueue) returnRoom() {
	if less := q.heldRoom - int64(max(q.byteCount+q.waitingBytes-freeUnread, 0)); less > 0 {
		q.room.Release(less)
		q.heldRoom -= less
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
	e := kinds.Errorf(kinds.Overloaded, "call: the answer of %d bytes has no room beside those that agents on this socket have not read: read answers before sending more", size)
	e.RetryAfterMS = 1000
	return e.WithDelivered(kinds.DeliveredUnknown)
}
