package peer

import (
	"bytes"
	"sync"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// outgoing is an encoded envelope until it is sent, with the type of its stream if it has one. A
// payload of splicedBytes or more is not copied: it is written from where it lies, which nobody
// changes ([kinds.Checked]).
type outgoing struct {
	buf     *bytes.Buffer // all but the spliced payload; nil: it was taken or released
	payload []byte        // spliced; nil: it is in buf
	at      int           // where in buf the payload belongs
}

// splicedBytes is the size from which a write more costs less than a copy into a buffer.
const splicedBytes = 128 << 10

// buffers holds buffers for encoded envelopes; those over keepBuffer are not kept.
var buffers = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, 4<<10)) }}

const keepBuffer = 256 << 10

// encode encodes an envelope, behind the type of its stream if it opens that. The caller takes or
// releases the result, unless there is an error.
func encode(env *wire.Envelope, typ ...byte) (outgoing, error) {
	out := outgoing{buf: buffers.Get().(*bytes.Buffer)}
	out.buf.Write(typ)
	err := out.append(env) // by itself: append changes out, which return may read first
	return out, err
}

func (s *outgoing) append(env *wire.Envelope) (err error) {
	if len(env.Payload) < splicedBytes {
		err = env.Append(s.buf)
	} else {
		s.payload = env.Payload
		s.at, err = env.AppendAroundPayload(s.buf)
	}
	if err != nil {
		s.release()
	}
	return err
}

// size is that of all in bytes.
func (s *outgoing) size() int { return s.buf.Len() + len(s.payload) }

// take returns s, which the outbox owns from then on.
func (s *outgoing) take() outgoing {
	taken := *s
	*s = outgoing{}
	return taken
}

// release gives the buffer back if s was not taken.
func (s *outgoing) release() {
	if s.buf != nil && s.buf.Cap() <= keepBuffer {
		s.buf.Reset()
		buffers.Put(s.buf)
	}
	*s = outgoing{}
}

// checkSize returns too_large if the envelope has more than limit bytes. The type of its stream is
// in s.
func (s *outgoing) checkSize(kind string, limit int) error {
	if size := s.size() - 1; size > limit {
		return kinds.Errorf(kinds.TooLarge, "%s: the envelope has %d bytes, %d are allowed; send less, or a reference to it", kind, size, limit).WithDelivered(kinds.DeliveredNo)
	}
	return nil
}

// writeAndClose writes s to a stream, ends that and releases s. It blocks until all is with QUIC.
func (s *outgoing) writeAndClose(stream halfCloser) error {
	defer s.release()
	text := s.buf.Bytes()
	for _, part := range [...][]byte{text[:s.at], s.payload, text[s.at:]} {
		if len(part) == 0 {
			continue
		}
		if _, err := stream.Write(part); err != nil {
			return err
		}
	}
	return stream.Close()
}
