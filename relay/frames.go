package relay

import (
	"bytes"
	"encoding/binary"

	"github.com/acpd/acpd/internal/ownwords"
)

// maxFrame is how many bytes of the server's frames a new one is made of. A max_payload that is enough for
// packets lets nats.go take frames of 11 KiB: room for these and for the longest line of most servers.
const maxFrame = 4 << 10

// switchingProtocols begins the HTTP answer of a server that sends frames behind its head.
const switchingProtocols = "HTTP/1.1 101"

var (
	errNoWebSocket = ownwords.New("the server answers")
	errBareNATS    = ownwords.New("the server begins with INFO, without a WebSocket")
)

// frameReader takes the payloads out of what the server of a WebSocket sends: the head of its
// HTTP answer, then frames (RFC 6455, section 5.2). It makes new frames of what is left of them, with maxFrame
// bytes each and what was held of a line: a server puts all that waits into one, and nats.go refuses frames of
// more than 8 times the server's max_payload.
type frameReader struct {
	head   int    // bytes of the HTTP answer so far; -1: it has ended
	tail   []byte // its last bytes; its first ones until the status is there
	header []byte // of a frame, as far as it has come
	left   uint64 // bytes of the frame's payload that have not come
	data   bool   // it is one of data
}

// filter appends to out what nats.go is to read of b. It hands the payloads of data frames to take, which appends
// what is left of them.
func (r *frameReader) filter(out, b []byte, take func(out, b []byte) ([]byte, error)) ([]byte, error) {
	var err error
	for len(b) > 0 {
		switch {
		case r.head >= 0:
			out = append(out, b[0])
			r.tail = append(r.tail, b[0])
			b = b[1:]
			r.head++
			// As http.ReadResponse, for which a lone \n ends a line too: nats.go begins to read frames there.
			ends := bytes.HasSuffix(r.tail, []byte("\n\r\n")) || bytes.HasSuffix(r.tail, []byte("\n\n"))
			switch {
			case r.head == len(switchingProtocols) && string(r.tail) != switchingProtocols, r.head < len(switchingProtocols) && ends:
				if bytes.HasPrefix(r.tail, []byte("INFO ")) {
					return out, errBareNATS
				}
				if code, err := parseStatus(r.tail); err == nil {
					return out, ownwords.Errorf("%w with status %d", errNoWebSocket, code)
				}
				return out, ownwords.Errorf("%w something other than HTTP", errNoWebSocket)
			case r.head > maxLine:
				return out, ownwords.Errorf("the server's HTTP answer has a head of more than %d bytes", maxLine)
			case ends:
				r.head, r.tail = -1, nil
			case r.head >= len(switchingProtocols):
				r.tail = append(r.tail[:0], r.tail[len(r.tail)-3:]...)
			}
		case r.left > 0:
			n := int(min(r.left, uint64(len(b)), maxFrame))
			if !r.data {
				out = append(out, b[:n]...)
			} else if out, err = appendFrame(out, b[:n], take); err != nil {
				return out, err
			}
			r.left -= uint64(n)
			b = b[n:]
		default:
			r.header = append(r.header, b[0])
			b = b[1:]
			if out, err = r.beginFrame(out); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// appendFrame appends a frame with what take leaves of b; none if that is nothing.
func appendFrame(out, b []byte, take func(out, b []byte) ([]byte, error)) ([]byte, error) {
	const headerLen = 10 // of a frame with 8 bytes for its length
	begin := len(out)
	out = append(out, 0x82, 127, 0, 0, 0, 0, 0, 0, 0, 0) // binary, whole, not masked
	out, err := take(out, b)
	if err != nil {
		return out, err
	}
	size := len(out) - begin - headerLen
	if size == 0 {
		return out[:begin], nil
	}
	binary.BigEndian.PutUint64(out[begin+2:], uint64(size))
	return out, nil
}

// beginFrame reads the header of a frame once it is whole, and appends it unless it is a data frame.
func (r *frameReader) beginFrame(out []byte) ([]byte, error) {
	if len(r.header) < 2 {
		return out, nil
	}
	first, second := r.header[0], r.header[1]
	more := 0
	switch size := second & 0x7f; {
	case size == 126:
		more = 2
	case size == 127:
		more = 8
	default:
		r.left = uint64(size)
	}
	switch opcode := first & 0x0f; {
	case first&0x70 != 0 || second&0x80 != 0:
		return out, ownwords.New("the server sends a WebSocket frame that is masked or has an extension's bits")
	case opcode > 2 && (opcode < 8 || opcode > 10) || opcode >= 8 && (first&0x80 == 0 || more > 0):
		return out, ownwords.New("the server sends a malformed WebSocket frame")
	default:
		r.data = opcode < 8
	}
	if len(r.header) < 2+more {
		return out, nil
	}
	if more > 0 {
		r.left = 0
		for _, c := range r.header[2:] {
			r.left = r.left<<8 | uint64(c)
		}
	}
	if !r.data {
		out = append(out, r.header...)
	}
	r.header = r.header[:0]
	return out, nil
}
