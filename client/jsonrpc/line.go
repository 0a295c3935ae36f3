package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/jsonscan"
)

// LineMargin is the size in bytes that a line may have beyond the largest envelope.
const LineMargin = 64 << 10

const (
	maxID         = 256 // bytes of a request's id
	minReadBuffer = 4 << 10
	maxKeptBuffer = 256 << 10 // a larger buffer is given back

	maxSharedReadBuffer = 32 << 10 // a read buffer is not made larger than this for small lines
)

// parsedLine is one line that came: a request or notification if hasMethod, a response if
// isResponse. Its values alias the line. Only the id is validated.
type parsedLine struct {
	id           jsontext.Value // as it came; nil: none
	hasMethod    bool
	isResponse   bool
	method       string
	params       jsontext.Value // or the result
	errorText    jsontext.Value // the member error
	paramsObject scannedObject  // params, if they are an object
}

var parsedLines = sync.Pool{New: func() any { return new(parsedLine) }}

// returnToPool gives m back to its pool; its values stay as they are.
func (m *parsedLine) returnToPool() {
	m.paramsObject.text, m.paramsObject.count, m.paramsObject.err = nil, 0, nil
	m.id, m.params, m.errorText = nil, nil, nil
	m.method, m.hasMethod, m.isResponse = "", false, false
	parsedLines.Put(m)
}

// parseLine reads one line. If it fails, the line still has the id that was found, and the
// caller answers with the error under that id.
func (m *parsedLine) parseLine(line []byte) *Error {
	var o scannedObject
	end := o.scan(line, jsonscan.SkipSpace(line, 0), &m.paramsObject)
	switch {
	case end >= 0 && jsonscan.SkipSpace(line, end) == len(line) && o.err == nil:
	case end >= 0 && o.err != nil:
		return newInvalidRequestError("%v", o.err)
	case jsontext.Value(line).IsValid():
		return newInvalidRequestError("expected an object; batches are not served")
	default:
		return &Error{Code: CodeParse, Message: "parse error: expected one JSON object on a line"}
	}
	var rpc string
	var result, badID bool
	for i := range o.count {
		name, v := o.memberAt(i)
		switch string(name) {
		case "jsonrpc":
			v.ReadString(&rpc)
		case "id":
			if badID = !isValidID(v); !badID {
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
			m.errorText = jsontext.Value(v)
		}
	}
	m.isResponse = !m.hasMethod && (result || m.errorText != nil)
	switch {
	case badID && !m.isResponse:
		return newInvalidRequestError("id: expected a string or a number of at most %d bytes", maxID)
	case o.err != nil:
		return newInvalidRequestError("%v", o.err)
	case rpc != "2.0":
		return newInvalidRequestError(`jsonrpc: expected "2.0"`)
	case m.isResponse && result && m.errorText != nil:
		return newInvalidRequestError("a response has either result or error")
	case m.isResponse:
		return nil
	case !m.hasMethod:
		return newInvalidRequestError("method: expected a string")
	case result:
		return newInvalidRequestError("either method or result")
	case m.params != nil && m.params[0] != '{' && m.params[0] != '[':
		return newInvalidRequestError("params: expected an object")
	}
	return nil
}

func newInvalidRequestError(format string, args ...any) *Error {
	return &Error{Code: CodeInvalidRequest, Message: "invalid request: " + fmt.Sprintf(format, args...)}
}

func isValidID(id []byte) bool {
	if len(id) > maxID {
		return false
	}
	switch c := id[0]; {
	case c == '"':
		return isPlainString(id) || jsontext.Value(id).IsValid()
	case c == '-' || c >= '0' && c <= '9':
		return true // skip has validated it
	}
	return false
}

var errLongLine = errors.New("a line is over the limit")

// unreadError says why a line was not read to its end. The other end is told.
type unreadError struct{ error }

// lineReader cuts what it reads into lines, in one buffer that grows as they need it.
type lineReader struct {
	source  io.Reader
	maxLine int
	input   *PartialInput // of the line that is not whole; nil: it is not bounded with others
	buf     []byte
	start   int // buf[from:to] is not cut yet
	end     int
	err     error

	cutSinceRead bool // a line was cut since the last read
}

// readLine returns a line without its line feed. The line is valid until the next call.
// Text before the end of the input is a line too. After the last line the error is
// io.EOF.
func (l *lineReader) readLine() ([]byte, error) {
	scanned := l.start
	for {
		if i := bytes.IndexByte(l.buf[scanned:l.end], '\n'); i >= 0 {
			line := l.buf[l.start : scanned+i]
			if len(line) > l.maxLine {
				return nil, errLongLine
			}
			l.start, l.cutSinceRead = scanned+i+1, true
			return line, nil
		}
		if l.end-l.start > l.maxLine {
			return nil, errLongLine
		}
		if l.err != nil {
			if line := l.buf[l.start:l.end]; len(line) > 0 && l.err == io.EOF {
				l.start = l.end
				return line, nil
			}
			return nil, l.err
		}
		if err := l.makeRoom(); err != nil {
			return nil, err
		}
		scanned = l.end
		var n int
		n, l.err = l.source.Read(l.buf[l.end:])
		l.end += n
		if l.err != nil && l.input != nil {
			l.err = l.input.ExplainError(l.err)
		}
	}
}

// makeRoom makes space to read into, behind what is not cut yet. If a read filled the
// buffer, there is more in the socket, and a larger buffer takes it at once.
func (l *lineReader) makeRoom() error {
	filled := l.end == len(l.buf)
	l.start, l.end = 0, copy(l.buf, l.buf[l.start:l.end])
	size, keep := len(l.buf), maxKeptBuffer
	if l.input != nil {
		keep = FreeInput
	}
	switch {
	case filled && (l.end == size || size < maxSharedReadBuffer):
		// No line needs more than max and its end.
		size = max(minReadBuffer, min(2*size, l.maxLine+1))
	case l.end == 0 && size > keep:
		size = minReadBuffer
	case l.input != nil && l.end < keep && size > keep:
		size = keep
	}
	if err := l.allowRead(size); err != nil || size == len(l.buf) {
		return err
	}
	buf := make([]byte, size)
	copy(buf, l.buf[:l.end])
	l.buf = buf
	return nil
}

// allowRead reserves size bytes of Options.InputLimit for an unfinished line, and sets
// the deadline of the next read.
func (l *lineReader) allowRead(size int) error {
	if l.input == nil {
		return nil
	}
	if l.cutSinceRead || l.end == 0 {
		l.input.Finish()
		l.cutSinceRead = false
	}
	if l.end == 0 {
		return nil
	}
	if size > FreeInput {
		if err := l.input.Reserve(size); err != nil {
			return err
		}
	}
	return l.input.AllowRead()
}
