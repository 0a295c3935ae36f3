package jsonrpc

import (
	"bytes"
	"io"
	"sync"

	"github.com/acpd/acpd/internal/ownwords"
)

const (
	minReadBuffer = 4 << 10
	maxReadBuffer = 32 << 10 // a buffer is not made larger for small lines
	pieceBytes    = 64 << 10 // the largest part of the memory for a line that may hold nothing yet
)

// pieces hold long lines. Many connections use them in turn.
var pieces = sync.Pool{New: func() any { return new([pieceBytes]byte) }}

func returnPiece(piece []byte) { pieces.Put((*[pieceBytes]byte)(piece)) }

var errLongLine = ownwords.New("a line is over the limit")

// unreadError is why a line was not read to its end. It is reported to the other end.
type unreadError struct{ error }

// lineReader cuts what it reads into lines, in a buffer that grows as they need it, up to a piece. A
// longer line is kept in several pieces until it is whole: nothing is copied or cleared as it grows.
type lineReader struct {
	source  io.Reader
	maxLine int
	input   *PartialInput // of the line that is not whole; nil: it is not bounded with others
	full    [][]byte      // pieces before buf, all of them of the line that is not whole
	buf     []byte        // a piece, or smaller
	start   int           // buf[start:end] is not cut yet; 0 if a piece is full
	end     int
	err     error

	cutSinceRead bool // a line was cut since the last read
	cutLong      bool // a line of several pieces was cut, so buf shrinks when it is next empty
}

// readLine returns a line without its line feed, in memory that is the caller's. Text before
// the end of the input is a line too. After the last line the error is io.EOF.
func (l *lineReader) readLine() ([]byte, error) {
	scanned := l.start
	for {
		if i := bytes.IndexByte(l.buf[scanned:l.end], '\n'); i >= 0 {
			if l.countFull()+scanned+i-l.start > l.maxLine {
				return nil, errLongLine
			}
			line := l.cutLine(scanned + i)
			l.start++
			l.cutSinceRead = true
			return line, nil
		}
		waiting := l.countWaiting()
		if waiting > l.maxLine {
			return nil, errLongLine
		}
		if l.err != nil {
			if waiting > 0 && l.err == io.EOF {
				return l.cutLine(l.end), nil
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

// countFull returns how many bytes the full pieces hold.
func (l *lineReader) countFull() int { return len(l.full) * pieceBytes }

// countWaiting returns how many bytes have come and are not cut.
func (l *lineReader) countWaiting() int { return l.countFull() + l.end - l.start }

// cutLine returns a copy of the text before buf[end] that is not cut yet, and cuts it.
func (l *lineReader) cutLine(end int) []byte {
	last := l.buf[l.start:end]
	l.start = end
	if len(l.full) == 0 {
		return append([]byte(nil), last...)
	}
	line := bytes.Join(append(l.full, last), nil) // which clears nothing beforehand
	l.returnFull()
	l.cutLong = true
	return line
}

func (l *lineReader) returnFull() {
	for _, piece := range l.full {
		returnPiece(piece)
	}
	l.full = nil
}

// release gives the pieces back. Their content is lost.
func (l *lineReader) release() {
	l.returnFull()
	if l.usesPiece() {
		returnPiece(l.buf)
	}
	l.buf, l.start, l.end = nil, 0, 0
}

func (l *lineReader) usesPiece() bool { return len(l.buf) == pieceBytes }

// makeRoom makes space to read into, behind what is not cut yet. If a read filled the
// buffer, there is more in the socket, and a larger buffer takes it at once.
func (l *lineReader) makeRoom() error {
	filled := l.end == len(l.buf)
	l.start, l.end = 0, copy(l.buf, l.buf[l.start:l.end])
	size, isFull := len(l.buf), l.usesPiece() && l.end == pieceBytes
	switch {
	case l.end == 0 && l.cutLong:
		size, l.cutLong = minReadBuffer, false // an idle connection keeps little
	case filled && l.end == size && size >= maxReadBuffer:
		size = pieceBytes
	case filled && size < maxReadBuffer:
		// No line needs more than max and its end.
		size = max(minReadBuffer, min(2*size, l.maxLine+1))
	}
	held := l.countFull() + size
	if isFull {
		held += pieceBytes
	}
	if err := l.allowRead(held); err != nil {
		return err
	}
	switch {
	case isFull:
		l.full = append(l.full, l.buf)
		l.buf, l.end = takePiece(), 0
	case size == pieceBytes && !l.usesPiece():
		l.replaceBuffer(takePiece())
	case size != len(l.buf):
		l.replaceBuffer(make([]byte, size))
	}
	return nil
}

func takePiece() []byte { return pieces.Get().(*[pieceBytes]byte)[:] }

// replaceBuffer copies the text that is not cut yet into another buffer, which has room for it.
func (l *lineReader) replaceBuffer(buf []byte) {
	copy(buf, l.buf[:l.end])
	if l.usesPiece() {
		returnPiece(l.buf)
	}
	l.buf = buf
}

// allowRead reserves size bytes of Options.InputLimit for an unfinished line, and sets
// the deadline of the next read.
func (l *lineReader) allowRead(size int) error {
	if l.input == nil {
		return nil
	}
	waiting := l.countWaiting()
	if l.cutSinceRead || waiting == 0 {
		l.input.Finish()
		l.cutSinceRead = false
	}
	if waiting == 0 {
		return nil
	}
	if size > FreeInput {
		if err := l.input.Reserve(size); err != nil {
			return err
		}
	}
	return l.input.AllowRead()
}
