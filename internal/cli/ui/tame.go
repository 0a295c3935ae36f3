package ui

import (
	"bytes"
	"io"
	"sync"

	"github.com/acpd/acpd/client"
)

// TameWriter writes the output of another program to standard error. If that is a terminal,
// it writes line by line, without what a terminal would obey.
type TameWriter struct {
	w    io.Writer
	tame bool

	mu   sync.Mutex // guards line: a process that lives on may write at the end
	line []byte     // which has not ended
}

const maxLine = 4 << 10 // of what is shown at a time

// NewTameWriter returns a writer to standard error. End it when the program has ended.
func (t *Terminal) NewTameWriter() *TameWriter { return &TameWriter{w: t.Err, tame: t.ErrTTY} }

func (t *TameWriter) Write(p []byte) (int, error) {
	if !t.tame {
		return t.w.Write(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for rest := p; len(rest) > 0; {
		part, more, ended := bytes.Cut(rest, []byte("\n"))
		if room := maxLine - len(t.line); len(part) > room {
			part, more, ended = rest[:room], rest[room:], true
		}
		t.line, rest = append(t.line, part...), more
		if ended {
			t.show()
		}
	}
	return len(p), nil
}

func (t *TameWriter) show() {
	io.WriteString(t.w, client.Text(string(t.line))+"\n")
	t.line = t.line[:0]
}

// End writes a last line that has no end.
func (t *TameWriter) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.line) > 0 {
		t.show()
	}
}

// ShareStreams lets several goroutines write to the streams from now on. Output that cannot
// be written is no failure any more: what nobody reads is not the fault of those who write.
func (t *Terminal) ShareStreams() {
	t.Out, t.Err = &sharedWriter{w: t.Out}, &sharedWriter{w: t.Err}
}

// sharedWriter writes for several goroutines, and always succeeds.
type sharedWriter struct {
	mu sync.Mutex // taken to write
	w  io.Writer
}

func (x *sharedWriter) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.w.Write(p)
	return len(p), nil
}
