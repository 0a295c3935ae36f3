package pipe

import (
	"bytes"
	"strings"
	"sync"

	"github.com/acpd/acpd/internal/ownwords"
)

const (
	maxWords = ownwords.MaxQuote - len("…")
	maxLine  = 1 << 10
)

// lastLines keeps the last two lines that have text, as far as their first 1 KiB go: the reason is often
// before a last one such as "see --help". A line that ends with CR alone is overwritten by the next. Any number
// of goroutines may use it.
type lastLines struct {
	mu     sync.Mutex // guards the rest
	line   []byte     // the unfinished one
	last   []byte
	before []byte // before last
	drawn  bool   // last ended with CR: the next line overwrites it
}

// Write takes what a command says. It never fails.
func (l *lastLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		part, rest, end := b, b[len(b):], byte(0)
		if i := bytes.IndexAny(b, "\r\n"); i >= 0 {
			part, rest, end = b[:i], b[i+1:], b[i]
		}
		l.line = append(l.line, part[:min(len(part), maxLine-len(l.line))]...)
		if end != 0 {
			l.endLine(end)
		}
		b = rest
	}
	return n, nil
}

// endLine is called with mu held.
func (l *lastLines) endLine(end byte) {
	if len(bytes.TrimSpace(l.line)) > 0 {
		if !l.drawn {
			l.last, l.before = l.before, l.last
		}
		l.last = append(l.last[:0], l.line...)
		l.drawn = end == '\r'
	} else if end == '\n' {
		l.drawn = false // it was CR LF
	}
	l.line = l.line[:0]
}

// words returns the lines, an unfinished one included, or "". If not both have room in the size that
// [ownwords.Quote] leaves, the first is cut. They are the command's claim, and may be those of another
// machine: errors have them only as quoted ones.
func (l *lastLines) words() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLine('\n')
	const joint, least = " / ", 20 // bytes; less of the first line says nothing
	last := ownwords.Quote(string(l.last))
	room := maxWords - len(joint) - len(last)
	before := ownwords.Quote(string(l.before))
	switch {
	case before == "" || room < least:
		return last
	case len(before) > room:
		before = strings.ToValidUTF8(before[:room], "") + "…"
	}
	return before + joint + last
}
