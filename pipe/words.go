package pipe

import (
	"strings"
	"sync"

	"github.com/acpd/acpd/internal/ownwords"
)

const (
	maxWords = ownwords.MaxQuote - len("…")
	keptTail = 4 << 10 // bytes
)

// lastLines keeps the end of what a command says: its last two lines, since the reason is often before a last one such
// as "see --help". Any number of goroutines may use it.
type lastLines struct {
	mu   sync.Mutex // guards tail
	tail []byte
}

// Write takes what a command says. It never fails.
func (l *lastLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, b[max(0, len(b)-keptTail):]...)
	l.tail = append(l.tail[:0], l.tail[max(0, len(l.tail)-keptTail):]...)
	return len(b), nil
}

// words returns the last two lines with text, an unfinished one included, or "". What was drawn over, by CR alone, is
// left out. If not both have room in the size that [ownwords.Quote] leaves, the first is cut. They are the command's
// claim, and may be those of another machine: errors have them only as quoted ones.
func (l *lastLines) words() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var before, last string
	for line := range strings.Lines(string(l.tail)) {
		line = strings.TrimRight(line, "\r\n")
		if line = ownwords.Quote(line[strings.LastIndexByte(line, '\r')+1:]); line != "" {
			before, last = last, line
		}
	}
	const joint, least = " / ", 20 // bytes; less of the first line says nothing
	room := maxWords - len(joint) - len(last)
	switch {
	case before == "" || room < least:
		return last
	case len(before) > room:
		before = strings.ToValidUTF8(before[:room], "") + "…"
	}
	return before + joint + last
}
