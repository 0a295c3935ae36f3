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
)

// inPacket is a packet that waits for ReadFrom.
type inPacket struct {
	data []byte
	from net.Addr
}

// queue is what waits of one trusted id, or of all others, the oldest first.
type queue struct {
	id      identity.ID // zero: of the rest
	packets []inPacket
}

// queues has what came in and was not read: one queue for each trusted id that has a packet
// waiting, and one for the rest. They are read in turn, a packet each, so that whoever floods
// delays the others by one packet a turn.
type queues struct {
	mu      sync.Mutex
	trusted map[identity.ID]*queue // those that are not empty
	rest    queue
	turn    []*queue // not empty, the next to read first
	waiting int
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
			own = &queue{id: id}
			q.trusted[id] = own
		}
	}
	if own == nil || len(own.packets) >= limit || len(own.packets) > 0 && q.waiting >= maxWaiting {
		return false
	}
	if len(own.packets) == 0 {
		q.turn = append(q.turn, own)
	}
	own.packets = append(own.packets, p)
	q.waiting++
	return true
}

// pop takes a packet of the queue whose turn it is; false: none waits.
func (q *queues) pop() (p inPacket, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turn) == 0 {
		return inPacket{}, false
	}
	own := q.turn[0]
	q.turn = q.turn[1:]
	p, own.packets[0] = own.packets[0], inPacket{}
	own.packets = own.packets[1:]
	q.waiting--
	switch {
	case len(own.packets) > 0:
		q.turn = append(q.turn, own)
	case own != &q.rest:
		delete(q.trusted, own.id)
	}
	return p, true
}

// close drops what waits, and takes no more.
func (q *queues) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.turn, q.waiting = nil, 0
	clear(q.trusted)
	q.rest = queue{}
}
