package peer

import (
	"bytes"
	"runtime"
	"sync"
)

// outbox writes what fits one packet to its stream. Whoever comes first does so
// for all: it lets those that are ready to run bring theirs, then writes in a row,
// so that QUIC packs many messages into few packets; written one at a time, each
// would wake the connection and leave in a packet of its own.
type outbox struct {
	mu      sync.Mutex // guards what follows
	queue   []outgoing
	writing bool
}

type outgoing struct {
	stream halfCloser
	buf    *bytes.Buffer
}

type halfCloser interface {
	Write([]byte) (int, error)
	Close() error
}

// onePacket is what a stream takes without waiting for the connection: quic-go
// buffers a packet's worth of data.
const onePacket = 1400

// write writes buf to the stream and ends it; the outbox owns buf from then on.
// A message that fits one packet may be written by somebody else a moment later:
// nobody waits, and what goes wrong shows where the stream's answer is awaited. A
// larger one is written when write returns.
func (o *outbox) write(stream halfCloser, buf *bytes.Buffer) error {
	if buf.Len() > onePacket {
		return outgoing{stream, buf}.write()
	}
	o.mu.Lock()
	o.queue = append(o.queue, outgoing{stream, buf})
	if o.writing {
		o.mu.Unlock()
		return nil
	}
	o.writing = true
	o.mu.Unlock()
	runtime.Gosched()
	var batch []outgoing
	for {
		o.mu.Lock()
		batch, o.queue = o.queue, batch[:0]
		o.writing = len(batch) > 0
		o.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		for i := range batch {
			batch[i].write()
		}
		clear(batch)
	}
}

func (m outgoing) write() error {
	defer putBuffer(m.buf)
	if _, err := m.stream.Write(m.buf.Bytes()); err != nil {
		return err
	}
	return m.stream.Close()
}
