package relay

import (
	"net"
	"sync"

	"github.com/acpd/acpd/identity"
)

// How much can wait for ReadFrom, in packets.
const (
	maxOfTrusted = 256  // of one trusted id: two streams that fill their windows; quic-go keeps as many of a connection
	maxOfRest    = 128  // of all others together
	maxWaiting   = 4096 // of all ids that have one waiting already; an id with none has room up to twice as many
	keptQueues   = 16   // empty queues that are used again
)

// inPacket is a packet that waits for ReadFrom.
type inPacket struct {
	data []byte
	from net.Addr
}

// queue is what waits of one trusted id, or of all others: a ring that grows to its bound.
type queue struct {
	id      identity.ID // zero: of the rest
	packets []inPacket
	first   int
	count   int
}

func (q *queue) push(p inPacket) {
	if q.count == len(q.packets) {
		grown := make([]inPacket, max(4, 2*len(q.packets)))
		for i := range q.count {
			grown[i] = q.packets[(q.first+i)%len(q.packets)]
		}
		q.packets, q.first = grown, 0
	}
	q.packets[(q.first+q.count)%len(q.packets)] = p
	q.count++
}

func (q *queue) pop() inPacket {
	p := q.packets[q.first]
	q.packets[q.first] = inPacket{}
	q.first = (q.first + 1) % len(q.packets)
	q.count--
	return p
}

// queues has what came in and was not read: one queue for each trusted id that has a packet
// waiting, and one for the rest. They are read in turn, a packet each, so that whoever floods
// delays the others by one packet a turn.
type queues struct {
	mu      sync.Mutex
	trusted map[identity.ID]*queue // those that are not empty
	rest    queue
	turn    []*queue // not empty, the next to read first; from head on
	head    int
	waiting int
	free    []*queue
	closed  bool
}

func newQueues() *queues { return &queues{trusted: make(map[identity.ID]*queue)} }

// push adds a packet, or reports that there is no room for it. trusted says whether the
// sender has a queue of its own.
func (q *queues) push(id identity.ID, trusted bool, p inPacket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	own, limit := &q.rest, maxOfRest
	if trusted {
		own, limit = q.trusted[id], maxOfTrusted
		if own == nil && q.waiting < 2*maxWaiting {
			own = q.takeFree()
			own.id = id
			q.trusted[id] = own
		}
	}
	if own == nil || own.count >= limit || own.count > 0 && q.waiting >= maxWaiting {
		return false
	}
	if own.count == 0 {
		q.turn = append(q.turn, own)
	}
	own.push(p)
	q.waiting++
	return true
}

// pop takes a packet of the queue whose turn it is; false: none waits.
func (q *queues) pop() (p inPacket, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == 0 {
		return inPacket{}, false
	}
	own := q.turn[q.head]
	q.turn[q.head] = nil
	q.head++
	p = own.pop()
	q.waiting--
	switch {
	case own.count > 0:
		q.turn = append(q.turn, own)
	case own != &q.rest:
		delete(q.trusted, own.id)
		if len(q.free) < keptQueues {
			q.free = append(q.free, own)
		}
	}
	if q.head == len(q.turn) {
		q.turn, q.head = q.turn[:0], 0
	} else if q.head >= 64 && q.head*2 >= len(q.turn) {
		n := copy(q.turn, q.turn[q.head:])
		clear(q.turn[n:])
		q.turn, q.head = q.turn[:n], 0
	}
	return p, true
}

// takeFree returns an empty queue. The caller holds mu.
func (q *queues) takeFree() *queue {
	if n := len(q.free); n > 0 {
		own := q.free[n-1]
		q.free = q.free[:n-1]
		return own
	}
	return new(queue)
}

// close drops what waits, and takes no more.
func (q *queues) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.turn, q.head, q.waiting, q.free = nil, 0, 0, nil
	clear(q.trusted)
	q.rest = queue{}
}
