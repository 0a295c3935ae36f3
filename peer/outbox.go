package peer

import (
	"runtime"
	"sync"
)

// outbox writes messages that fit one packet to their streams. The first caller lets the
// goroutines that are ready to run add theirs, and then writes all in a row. So QUIC packs
// many messages into few packets. Written one at a time, each would wake the connection
// and leave in a packet of its own.
type outbox struct {
	mu    sync.Mutex // guards what follows
	queue []outgoingMessage
	spare []outgoingMessage // memory for the next queue
	due   bool              // a goroutine is about to write
}

type outgoingMessage struct {
	stream halfCloser
	outgoing
}

type halfCloser interface {
	Write([]byte) (int, error)
	Close() error
}

const (
	onePacket = 1400 // what a stream takes without waiting for the connection
	maxBatch  = 32   // what nobody waits for to become more
)

// writeMessage writes out to the stream and ends it. The outbox owns out from then on.
// A message that fits one packet may be written by another goroutine a moment later. Its
// error shows to the caller that waits for the stream's answer. A larger message is
// written when writeMessage returns.
func (o *outbox) writeMessage(stream halfCloser, out outgoing) error {
	if out.size() > onePacket {
		return out.writeAndClose(stream)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, outgoingMessage{stream, out})
	switch {
	case !o.due:
		o.due = true
		o.mu.Unlock()
		runtime.Gosched()
		o.mu.Lock()
		for len(o.queue) > 0 {
			o.writeBatch()
		}
		o.due = false
	case len(o.queue) >= maxBatch:
		o.writeBatch()
	}
	return nil
}

// writeBatch writes the queue. Callers hold mu, which is released meanwhile.
func (o *outbox) writeBatch() {
	batch := o.queue
	o.queue, o.spare = o.spare[:0], nil
	o.mu.Unlock()
	for _, m := range batch {
		m.writeAndClose(m.stream)
	}
	clear(batch)
	o.mu.Lock()
	o.spare = batch
}
