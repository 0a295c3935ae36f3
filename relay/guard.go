package relay

import (
	"bytes"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
)

const (
	// maxLine bounds the lines of a server, and the head of an HTTP answer, in bytes. Servers take lines of 4,096 bytes, if their
	// max_control_line says nothing else. The line that they make of one is longer. A bound at 4,096 would let
	// any member of the account end the connection, by the longest reply subject that the server takes.
	// With a max_control_line of more than this one can (docs/reach.md); INFO does not say it.
	maxLine       = 64 << 10
	maxErrorLines = 1024    // in a second: nats.go keeps each until it is reported, and each packet to a peer may bring one
	maxHeader     = 1 << 10 // bytes of a message's header that nats.go reads: a 503 has less than 200

	// maxRead bounds a message that nats.go reads, with its header, in bytes. The longest that
	// anybody here takes is an answer to an ask.
	maxRead = maxHeader + MaxAnswer
)

var errNoNATS = ownwords.New("no NATS server: it does not begin with INFO")

// guard stands between a server and nats.go, which keeps whatever comes: it bounds the length of lines and
// the number of errors. A server passes on whatever a member of the account sends; for a message nats.go
// takes memory before a byte has come, and of a header it makes a map. So the guard drops each message
// that is longer than anybody here reads, or whose header is, as its bytes come, and keeps none of
// them. It follows the NATS client protocol, within a WebSocket the frames of RFC 6455, and
// reads strictly, so that nats.go cannot read the same bytes another way.
type guard struct {
	frames  *frameReader   // nil: no WebSocket
	dropped *atomic.Uint64 // messages

	line   []byte // the begin of a line whose end has not come
	skip   int    // bytes of a message that have not come, with its line end
	drop   bool   // the message is one to drop
	errors int    // lines that say an error, in the second that began at since
	since  time.Time
}

func newGuard(webSocket bool, dropped *atomic.Uint64) guard {
	g := guard{dropped: dropped}
	if webSocket {
		g.frames = new(frameReader)
	}
	return g
}

// filter appends to out what nats.go is to read of the next bytes from the server: whole lines, and
// messages as they come. After an error the connection is to be ended.
func (g *guard) filter(out, b []byte) ([]byte, error) {
	if g.frames == nil {
		return g.filterProtocol(out, b)
	}
	return g.frames.filter(out, b, g.filterProtocol)
}

func (g *guard) filterProtocol(out, b []byte) ([]byte, error) {
	for len(b) > 0 {
		if g.skip > 0 {
			n := 1
			if g.skip > len("\r\n") {
				n = min(g.skip-len("\r\n"), len(b))
			} else if b[0] != "\n\r"[g.skip-1] {
				return out, ownwords.New("the server sends a message that is longer than it announced")
			}
			if !g.drop {
				out = append(out, b[:n]...)
			}
			g.skip -= n
			b = b[n:]
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
			return out, ownwords.Errorf("the server sends a line of more than %d bytes", maxLine)
		}
		if end < 0 {
			return out, nil
		}
		header, size, err := parseControlLine(bytes.TrimSuffix(line, []byte{'\r'}))
		if err != nil {
			return out, err
		}
		if bytes.HasPrefix(line, []byte("-ERR")) {
			if now := time.Now(); now.Sub(g.since) >= time.Second {
				g.errors, g.since = 0, now
			}
			if g.errors++; g.errors > maxErrorLines {
				return out, ownwords.Errorf("the server says more than %d errors in a second", maxErrorLines)
			}
		}
		if g.drop = header > maxHeader || size-len("\r\n") > maxRead; g.drop {
			g.dropped.Add(1)
		} else {
			out = append(append(out, line...), '\n')
		}
		g.skip = size
		g.line = g.line[:0]
		b = b[end+1:]
	}
	return out, nil
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
		return 0, 0, ownwords.New("the server sends what is no line of NATS")
	}
	words := 0
	var word, before []byte // the last two
	for more := true; more; words++ {
		before = word
		word, rest, more = bytes.Cut(rest, []byte{' '})
		if len(word) == 0 || bytes.ContainsAny(word, "\t\r") {
			return 0, 0, ownwords.Errorf("the server sends a malformed %s line", operation)
		}
	}
	size, sizeErr := parseSize(word)
	if least == 4 {
		header, err = parseSize(before)
	}
	switch {
	case words < least || words > most:
		return 0, 0, ownwords.Errorf("the server sends a malformed %s line", operation)
	case sizeErr != nil:
		return 0, 0, sizeErr
	case err != nil || header > size:
		return 0, 0, ownwords.Errorf("the server sends a malformed %s line", operation)
	}
	return header, size + len("\r\n"), nil
}

// parseSize reads digits, without sign.
func parseSize(word []byte) (int, error) {
	size, err := strconv.ParseUint(string(word), 10, 30)
	if err != nil {
		return 0, ownwords.New("the server announces a message whose length is no number")
	}
	return int(size), nil
}
