package peer

import (
	"bytes"
	"runtime"
	"sync"
)

// outbox writes what fits one packet to its stream. Whoever comes first lets
// those that are ready to run bring theirs and then writes for all, in a row, so
// that QUIC packs many messages into few packets; written one at a time, each
// would wake the connection and leave in a packet of its own.
type outbox struct {
	mu    sync.Mutex // guards what follows
	queue []outgoing
	spare []outgoing // memory for the next queue
	due   bool       // somebody is about to write
}

type outgoing struct {
	stream halfCloser
	buf    *bytes.Buffer
}

type halfCloser interface {
	Write([]byte) (int, error)
	Close() error
}

const (
	onePacket = 1400 // what a stream takes without waiting for the connection
	maxBatch  = 32   // what nobody waits for to become more
)

// write writes buf to the stream and ends it; the outbox owns buf from then on.
// A message that fits one packet may be written by somebody else a moment later:
// nobody waits, and what goes wrong shows where the stream's answer is awaited. A
// larger one is written when write returns.
func (o *outbox) write(stream halfCloser, buf *bytes.Buffer) error {
	if buf.Len() > onePacket {
		return outgoing{stream, buf}.write()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, outgoing{stream, buf})
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
		m.write()
	}
	clear(batch)
	o.mu.Lock()
	o.spare = batch
}

func (m outgoing) write() error {
	defer putBuffer(m.buf)
	if _, err := m.stream.Write(m.buf.Bytes()); err != nil {
		return err
	}
	return m.stream.Close()
}
