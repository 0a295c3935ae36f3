package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
)

// lineBuffer holds the longest line, so that ReadSlice never needs a copy.
const lineBuffer = 2 << 20

// readLines calls handle with each line, newline included, and the number that it
// begins with, until r ends. The line is valid until handle returns.
func readLines(r io.Reader, handle func(number uint64, line []byte) error) error {
	lines := bufio.NewReaderSize(r, lineBuffer)
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		number, err := parseLineNumber(line)
		if err != nil {
			return err
		}
		if err := handle(number, line); err != nil {
			return err
		}
	}
}

// appendLine appends the line that carries payload under a number.
func appendLine(b []byte, number uint64, payload []byte) []byte {
	b = strconv.AppendUint(b, number, 10)
	b = append(b, ' ')
	b = append(b, payload...)
	return append(b, '\n')
}

func parseLineNumber(line []byte) (uint64, error) {
	digits, _, _ := bytes.Cut(line, []byte{' '})
	return strconv.ParseUint(string(digits), 10, 64)
}

// cutLinePayload is the payload of a line whose number is known to be well formed.
func cutLinePayload(line []byte) []byte {
	return line[bytes.IndexByte(line, ' ')+1 : len(line)-1]
}

// A lineWriter lets many goroutines write whole lines on one connection. Lines
// that come while another is being written go out together in the next write; none waits for
// company, and a lone one is written as it is. Any message system may do so.
type lineWriter struct {
	conn net.Conn

	mu      sync.Mutex // guards the fields below
	writing bool
	queued  []byte
	spare   []byte // the memory queued had before
	err     error
}

// writeLine sends the line, or leaves that to the goroutine that is just writing. It keeps no hold of line.
func (w *lineWriter) writeLine(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writing {
		w.queued = append(w.queued, line...)
		return w.err
	}
	w.writing = true
	w.writeReleasingLock(line)
	for len(w.queued) > 0 && w.err == nil {
		out := w.queued
		w.queued = w.spare[:0]
		w.writeReleasingLock(out)
		w.spare = out
	}
	w.writing = false
	return w.err
}

// writeReleasingLock writes p with the lock released; one goroutine at a time calls it.
func (w *lineWriter) writeReleasingLock(p []byte) {
	w.mu.Unlock()
	_, err := w.conn.Write(p)
	w.mu.Lock()
	w.err = err
}

// waitingEntries holds what waits for the line with a number.
type waitingEntries[T any] struct {
	mu      sync.Mutex // guards entries
	entries map[uint64]T
}

func newWaitingEntries[T any]() *waitingEntries[T] {
	return &waitingEntries[T]{entries: map[uint64]T{}}
}

func (w *waitingEntries[T]) put(number uint64, entry T) {
	w.mu.Lock()
	w.entries[number] = entry
	w.mu.Unlock()
}

func (w *waitingEntries[T]) take(number uint64) (T, error) {
	w.mu.Lock()
	entry, ok := w.entries[number]
	delete(w.entries, number)
	w.mu.Unlock()
	if !ok {
		return entry, fmt.Errorf("nothing waits for number %d", number)
	}
	return entry, nil
}
