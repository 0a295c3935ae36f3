package relay

import (
	"bytes"
	"errors"
	"fmt"
)

const (
	// maxLine bounds the lines of a server, in bytes. Servers take lines of 4,096 bytes, if their
	// max_control_line says nothing else. The line that they make of one is longer. A bound at 4,096 would let
	// any member of the account end the connection, by the longest reply subject that the server takes.
	// With a max_control_line of more than this one can (docs/reach.md); INFO does not say it.
	maxLine       = 64 << 10
	maxErrorLines = 64      // of a connection: nats.go keeps each until it is told of
	maxMessage    = 8 << 20 // bytes: larger ones NATS advises against, and a server sends them only if configured so
	maxHeader     = 1 << 10 // bytes of a message's header that nats.go reads: a 503 has less than 200
)

var errNoNATS = errors.New("no NATS server: it does not begin with INFO")

// guard bounds what a server makes nats.go keep: the length of its lines, the number of its
// errors, and the size that it says of a message, for which nats.go takes memory before a byte has
// come. A server passes on whatever header a member of the account sends, and nats.go makes a map of
// it: of a long header the guard overwrites the first byte, and nats.go throws the message away as
// malformed. The guard follows the NATS client protocol, within a WebSocket the frames of RFC 6455, and
// reads strictly, so that nats.go cannot read the same bytes another way.
type guard struct {
	frames *frameReader // nil: no WebSocket
	line   []byte       // the begin of a line whose end has not come
	skip   int          // bytes of a message that have not come, with its line end
	spoil  bool         // the next byte begins a header that is too long
	errors int          // lines that say an error
}

func newGuard(webSocket bool) guard {
	if webSocket {
		return guard{frames: new(frameReader)}
	}
	return guard{}
}

// check looks at the next bytes from the server, and spoils headers in them that are too long. After an
// error the connection is to be ended.
func (g *guard) check(b []byte) error {
	if g.frames == nil {
		return g.checkProtocol(b)
	}
	return g.frames.read(b, g.checkProtocol)
}

func (g *guard) checkProtocol(b []byte) error {
	for len(b) > 0 {
		switch {
		case g.skip > len("\r\n"):
			if g.spoil {
				b[0], g.spoil = 0, false
			}
			n := min(g.skip-len("\r\n"), len(b))
			g.skip -= n
			b = b[n:]
			continue
		case g.skip > 0:
			if b[0] != "\n\r"[g.skip-1] {
				return errors.New("the server sends a message that is longer than it announced")
			}
			g.skip--
			b = b[1:]
			continue
		}
		end := bytes.IndexByte(b, '\n')
		part := b
		if end >= 0 {
			part = b[:end]
		}
		line := part
		if len(g.line) > 0 || end < 0 {
			g.line = append(g.line, part...)
			line = g.line
		}
		if len(line) > maxLine {
			return fmt.Errorf("the server sends a line of more than %d bytes", maxLine)
		}
		if end < 0 {
			return nil
		}
		header, size, err := parseControlLine(bytes.TrimSuffix(line, []byte{'\r'}))
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte("-ERR")) {
			if g.errors++; g.errors > maxErrorLines {
				return fmt.Errorf("the server says more than %d errors", maxErrorLines)
			}
		}
		g.skip, g.spoil = size, header > maxHeader
		g.line = g.line[:0]
		b = b[end+1:]
	}
	return nil
}

// parseControlLine returns how many bytes of a message follow a line, with their line end, and how many
// of them are its header.
func parseControlLine(line []byte) (header, size int, err error) {
	operation, rest, _ := bytes.Cut(line, []byte{' '})
	least, most := 3, 4 // words behind the operation: subject, number, reply subject if any, size
	switch string(operation) {
	case "INFO", "PING", "PONG", "+OK", "-ERR":
		return 0, 0, nil
	case "MSG":
	case "HMSG":
		least, most = 4, 5
	default:
		return 0, 0, fmt.Errorf("the server sends what is no line of NATS: %.20q", line)
	}
	words := 0
	var word, before []byte // the last two
	for more := true; more; words++ {
		before = word
		word, rest, more = bytes.Cut(rest, []byte{' '})
		if len(word) == 0 || bytes.ContainsAny(word, "\t\r") {
			return 0, 0, fmt.Errorf("the server sends a malformed %s line", operation)
		}
	}
	size, sizeErr := parseSize(word)
	if least == 4 {
		header, err = parseSize(before)
	}
	switch {
	case words < least || words > most:
		return 0, 0, fmt.Errorf("the server sends a malformed %s line", operation)
	case sizeErr != nil:
		return 0, 0, sizeErr
	case err != nil || header > size:
		return 0, 0, fmt.Errorf("the server sends a malformed %s line", operation)
	}
	return header, size + len("\r\n"), nil
}

// parseSize reads digits, without sign, up to maxMessage.
func parseSize(word []byte) (int, error) {
	size := 0
	for _, c := range word {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("the server announces a message of %.20q bytes: expected digits", word)
		}
		if size = 10*size + int(c-'0'); size > maxMessage {
			return 0, fmt.Errorf("the server announces a message of %.20q bytes: %d are the most", word, maxMessage)
		}
	}
	return size, nil
}

// frameReader takes the payloads out of what the server of a WebSocket sends: the head of its
// HTTP answer, then frames (RFC 6455, section 5.2).
type frameReader struct {
	head   int    // bytes of the HTTP answer so far; -1: it has ended
	tail   []byte // its last bytes
	header []byte // of a frame, as far as it has come
	left   uint64 // bytes of the frame's payload that have not come
	data   bool   // it is one of data
}

// read hands the payloads of data frames in b to take.
func (r *frameReader) read(b []byte, take func([]byte) error) error {
	for len(b) > 0 {
		switch {
		case r.head >= 0:
			r.tail = append(r.tail, b[0])
			b = b[1:]
			if r.head++; r.head > maxHead {
				return fmt.Errorf("the server's HTTP answer has a head of more than %d bytes", maxHead)
			}
			if bytes.HasSuffix(r.tail, []byte("\r\n\r\n")) || bytes.HasSuffix(r.tail, []byte("\n\n")) {
				r.head, r.tail = -1, nil
			} else if len(r.tail) > 4 {
				r.tail = append(r.tail[:0], r.tail[len(r.tail)-4:]...)
			}
		case r.left > 0:
			n := int(min(r.left, uint64(len(b))))
			if r.data {
				if err := take(b[:n]); err != nil {
					return err
				}
			}
			r.left -= uint64(n)
			b = b[n:]
		default:
			r.header = append(r.header, b[0])
			b = b[1:]
			if err := r.beginFrame(); err != nil {
				return err
			}
		}
	}
	return nil
}

// beginFrame reads the header of a frame once it is whole.
func (r *frameReader) beginFrame() error {
	if len(r.header) < 2 {
		return nil
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
		return errors.New("the server sends a WebSocket frame that is masked or has an extension's bits")
	case opcode > 2 && (opcode < 8 || opcode > 10) || opcode >= 8 && (first&0x80 == 0 || more > 0):
		return errors.New("the server sends a malformed WebSocket frame")
	default:
		r.data = opcode < 8
	}
	if len(r.header) < 2+more {
		return nil
	}
	if more > 0 {
		r.left = 0
		for _, c := range r.header[2:] {
			r.left = r.left<<8 | uint64(c)
		}
	}
	r.header = r.header[:0]
	return nil
}
