package ui

import (
	"bytes"
	"io"
	"sync"

	"github.com/acpd/acpd/client"
)

// CommandStderr writes the output of another program to standard error. If that is a terminal,
// it writes line by line, without what a terminal would obey.
type CommandStderr struct {
	w        io.Writer
	harmless bool

	mu   sync.Mutex // guards line: a process that lives on may write at the end
	line []byte     // which has not ended
}

const maxLine = 4 << 10 // of what is shown at a time

// NewCommandStderr returns a writer to standard error. Flush it when the program has ended.
func (t *Terminal) NewCommandStderr() *CommandStderr {
	return &CommandStderr{w: t.Err, harmless: t.ErrTTY}
}

func (t *CommandStderr) Write(p []byte) (int, error) {
	if !t.harmless {
		return t.w.Write(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.line = append(t.line, p...); ; {
		end := bytes.IndexByte(t.line, '\n')
		switch {
		case end >= 0 && end <= maxLine:
			t.writeLine(end)
			t.line = t.line[1:]
		case len(t.line) > maxLine:
			t.writeLine(maxLine)
		default:
			return len(p), nil
		}
	}
}

// writeLine writes the first n bytes of what has not ended as a line.
func (t *CommandStderr) writeLine(n int) {
	io.WriteString(t.w, client.Text(string(t.line[:n]))+"\n")
	t.line = t.line[n:]
}

// Flush writes a last line that has no end.
func (t *CommandStderr) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.line) > 0 {
		t.writeLine(len(t.line))
	}
}
