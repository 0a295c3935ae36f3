package jsonrpc

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// maxOnlyAnswer bounds the answer that [CallOnly] reads, in bytes.
const maxOnlyAnswer = 64 << 10

var (
	errTakenOver = ownwords.New("the connection carries something else now")
	errReadAhead = kinds.Errorf(kinds.Invalid, "more came after a call that makes the connection carry something else: wait for its answer, and use a separate connection for it")
)

// TakeOver answers with result, and ends JSON-RPC on the connection: from then on its bytes are
// the handler's, which reads and writes the net.Conn that TakeOver returns. When the handler
// returns, or the connection is closed, the net.Conn is closed.
//
// It returns an error, with which the handler responds, if the other end uses the connection for
// other calls too, did not wait for the answer, or has gone. Options.InputLimit does not apply to
// what comes afterwards: the handler bounds it.
func (r *Request) TakeOver(result any) (net.Conn, error) {
	c := r.conn
	c.mu.Lock()
	alone := c.err == nil && r.id != nil && len(c.calls) == 0
	for other := c.requests; other != nil; other = other.next { // those that wait for their handlers too
		alone = alone && (other == r || other.responded.Load())
	}
	if alone {
		c.takenOver.Store(true)
		c.conn.SetReadDeadline(readNoMore) // ends the read that is under way
	}
	c.mu.Unlock()
	if !alone {
		return nil, kinds.Errorf(kinds.Invalid, "%s: other calls are under way on this connection: open a separate one for this call", r.Method)
	}
	<-c.readEnded
	if c.readErr != errTakenOver {
		return nil, c.readErr
	}
	c.conn.SetReadDeadline(time.Time{})
	if err := r.respondOnce(result, nil); err != nil {
		return nil, err
	}
	c.queue.waitUntilWritten()
	c.queue.failFurtherSends(errTakenOver)
	return c.conn, c.Err()
}

// readNoMore is a deadline that has passed.
var readNoMore = time.Unix(1, 0)

// setReadDeadline sets the deadline of the next read for Options.InputLimit, unless the connection is taken over.
func (c *Conn) setReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.takenOver.Load() {
		t = readNoMore
	}
	return c.conn.SetReadDeadline(t)
}

// endForTakeOver returns why nothing more is read of a connection that is taken over. err is what
// the last read gave.
func (l *lineReader) endForTakeOver(err error) error {
	switch {
	case err == nil, l.countWaiting() > 0:
		return unreadError{errReadAhead}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errTakenOver
	}
	return err
}

// CallOnly calls a method on a connection that carries something else afterwards, and reads the result
// into result: a pointer, or nil. It blocks until the answer is in or a deadline of the connection passes,
// and reads no byte behind the answer. The errors are those of [Conn.Call], and os.ErrDeadlineExceeded.
func CallOnly(conn net.Conn, method string, params, result any) error {
	request := append(append([]byte(`{"jsonrpc":"2.0","id":1,"method":"`), method...), `","params":`...)
	request, err := AppendValue(request, params)
	if err != nil {
		return kinds.Errorf(kinds.Invalid, "%s: %v", method, err)
	}
	if _, err := conn.Write(append(request, "}\n"...)); err != nil {
		return newClosedError(err, kinds.DeliveredNo)
	}
	line, err := readOnlyLine(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if err != nil {
		return newClosedError(err, kinds.DeliveredUnknown)
	}
	var m parsedLine
	fail := m.parseLine(line)
	switch {
	case fail != nil:
		return fail
	case !m.isResponse:
		return &Error{Code: CodeInvalidRequest, Message: "the answer to " + method + " is none"}
	case m.errorText != nil:
		return readErrorObject(m.errorText)
	}
	if err := readScannedValue(m.params, &m.paramsObject, result, false); err != nil {
		return &Error{Code: CodeInvalidRequest, Message: "the answer to " + method + " is malformed"}
	}
	return nil
}

// readOnlyLine reads a line, byte by byte: what follows it belongs to somebody else.
func readOnlyLine(in io.Reader) ([]byte, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < maxOnlyAnswer; {
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		if b[0] == '\n' {
			return line, nil
		}
		line = append(line, b[0])
	}
	return nil, errLongLine
}
