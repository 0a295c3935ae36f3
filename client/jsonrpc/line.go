package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/wire"
)

// LineMargin is what a line may hold beyond the largest envelope.
const LineMargin = 64 << 10

const (
	maxID    = 256 // bytes of a request's id
	smallest = 4 << 10
	kept     = 256 << 10 // a buffer that grew beyond this is given back

	readAtOnce = 32 << 10 // a read buffer is not made larger than this for small lines
)

// message is one line: a request or notification if hasMethod, a response if
// isResponse. Its values alias the line and are not validated, but for the id.
type message struct {
	id         jsontext.Value // as it came; nil: none
	hasMethod  bool
	isResponse bool
	method     string
	params     jsontext.Value // or the result
	fault      jsontext.Value // the member error
	inner      object         // params, where they are an object
}

var messagePool = sync.Pool{New: func() any { return new(message) }}

// release gives m back; its values stay as they are.
func (m *message) release() {
	inner := &m.inner
	inner.text, inner.n, inner.err = nil, 0, nil
	m.id, m.params, m.fault = nil, nil, nil
	m.method, m.hasMethod, m.isResponse = "", false, false
	messagePool.Put(m)
}

// parse reads one line. If that fails the message still has the id where one was
// found: the error is to be answered with it.
func (m *message) parse(line []byte) *RPCError {
	var o object
	end := o.scan(line, space(line, 0), &m.inner)
	switch {
	case end >= 0 && space(line, end) == len(line) && o.err == nil:
	case end >= 0 && o.err != nil:
		return invalid("%v", o.err)
	case jsontext.Value(line).IsValid():
		return invalid("expected an object; batches are not served")
	default:
		return &RPCError{Code: CodeParse, Message: "parse error: expected one JSON object on a line"}
	}
	var rpc string
	var result, badID bool
	for i := range o.n {
		name, v := o.member(i)
		switch string(name) {
		case "jsonrpc":
			v.ReadString(&rpc)
		case "id":
			if badID = !validID(v); !badID {
				m.id = jsontext.Value(v)
			}
		case "method":
			m.hasMethod = v.ReadString(&m.method) == nil && v[0] == '"'
		case "params":
			m.params = jsontext.Value(v)
		case "result":
			result = true
			m.params = jsontext.Value(v)
		case "error":
			m.fault = jsontext.Value(v)
		}
	}
	m.isResponse = !m.hasMethod && (result || m.fault != nil)
	switch {
	case badID && !m.isResponse:
		return invalid("id: expected a string or a number of at most %d bytes", maxID)
	case o.err != nil:
		return invalid("%v", o.err)
	case rpc != "2.0":
		return invalid(`jsonrpc: expected "2.0"`)
	case m.isResponse && result && m.fault != nil:
		return invalid("a response has either result or error")
	case m.isResponse:
		return nil
	case !m.hasMethod:
		return invalid("method: expected a string")
	case result:
		return invalid("either method or result")
	case m.params != nil && m.params[0] != '{' && m.params[0] != '[':
		return invalid("params: expected an object")
	}
	return nil
}

func invalid(format string, args ...any) *RPCError {
	return &RPCError{Code: CodeInvalidRequest, Message: "invalid request: " + fmt.Sprintf(format, args...)}
}

func validID(id []byte) bool {
	if len(id) > maxID {
		return false
	}
	switch c := id[0]; {
	case c == '"':
		return plain(id) || jsontext.Value(id).IsValid()
	case c == '-' || c >= '0' && c <= '9':
		return true // skip has validated it
	}
	return false
}

var errLong = errors.New("a line is over the limit")

// unread is why a line was not read to its end, which the other end is told.
type unread struct{ error }

// lines cuts what it reads into lines, in one buffer that grows as they need it.
type lines struct {
	r    io.Reader
	max  int
	part *Part // of the line that is not whole; nil: it is not bounded with others
	buf  []byte
	from int // buf[from:to] is not cut yet
	to   int
	err  error

	fresh bool // a line was cut since the last read
}

// next returns a line without its end; it is valid until the next call. What
// stands before the end of the input is a line too. After the last one the error
// is io.EOF.
func (l *lines) next() ([]byte, error) {
	scanned := l.from
	for {
		if i := bytes.IndexByte(l.buf[scanned:l.to], '\n'); i >= 0 {
			line := l.buf[l.from : scanned+i]
			if len(line) > l.max {
				return nil, errLong
			}
			l.from, l.fresh = scanned+i+1, true
			return line, nil
		}
		if l.to-l.from > l.max {
			return nil, errLong
		}
		if l.err != nil {
			line := l.buf[l.from:l.to]
			l.from = l.to
			if len(line) > 0 && l.err == io.EOF {
				return line, nil
			}
			return nil, l.err
		}
		if err := l.room(); err != nil {
			return nil, err
		}
		scanned = l.to
		var n int
		n, l.err = l.r.Read(l.buf[l.to:])
		l.to += n
		if l.err != nil && l.part != nil {
			l.err = l.part.Explain(l.err)
		}
	}
}

// room makes space to read into, behind what is not cut yet. A read that filled
// the buffer has left something in the socket: a larger one takes it at once.
func (l *lines) room() error {
	filled := l.to == len(l.buf)
	l.from, l.to = 0, copy(l.buf, l.buf[l.from:l.to])
	size, keep := len(l.buf), kept
	if l.part != nil {
		keep = FreePart
	}
	switch {
	case filled && (l.to == size || size < readAtOnce):
		// No line needs more than max and its end.
		size = max(smallest, min(2*size, l.max+1))
	case l.to == 0 && size > keep:
		size = smallest
	case l.part != nil && l.to < keep && size > keep:
		size = keep
	}
	if err := l.await(size); err != nil || size == len(l.buf) {
		return err
	}
	buf := make([]byte, size)
	copy(buf, l.buf[:l.to])
	l.buf = buf
	return nil
}

// await enters what the buffer is about to hold of an unfinished line, and how long the
// rest of it may take.
func (l *lines) await(size int) error {
	if l.part == nil {
		return nil
	}
	if l.fresh || l.to == 0 {
		l.part.Finish()
		l.fresh = false
	}
	if l.to == 0 {
		return nil
	}
	if size > FreePart {
		if err := l.part.Hold(size); err != nil {
			return err
		}
	}
	return l.part.Await()
}

func defaultMaxLine(n int) int {
	if n > 0 {
		return n
	}
	return wire.MaxMaxMessage + LineMargin
}
