package pipe

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
)

const (
	maxWords = 200 // bytes of what a command said, in an error
	maxLine  = 1 << 10
)

// lastLines keeps the last two lines that have text, as far as their first 1 KiB go: the reason often stands
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

// words returns the lines as an error shows them, "" if there are none. An unfinished line counts. If not both
// have room, the first is cut.
func (l *lastLines) words() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLine('\n')
	if len(l.last) == 0 {
		return ""
	}
	const joint, least = " / ", 20 // bytes; less of the first line says nothing
	last := cleanWords(l.last, maxWords)
	if room := maxWords - len(joint) - len(last); room >= least {
		if before := cleanWords(l.before, room); before != "" {
			last = before + joint + last
		}
	}
	return `"` + last + `"`
}

// quoteWords returns text of a command as an error shows it: on one line, without what a terminal
// would obey or not show, cut, and in quotes. It is the command's claim and may be the words of
// another machine.
func quoteWords(text []byte) string { return `"` + cleanWords(text, maxWords) + `"` }

// cleanWords is quoteWords without the quotes, cut after limit bytes.
func cleanWords(text []byte, limit int) string {
	var b strings.Builder
	space := true // what b ends with
	for _, r := range strings.ToValidUTF8(dropControlSequences(string(text)), "\uFFFD") {
		switch {
		case unicode.IsSpace(r):
			if space {
				continue
			}
			r = ' '
		case r == '"':
			r = '\''
		case !unicode.IsPrint(r):
			continue
		}
		if b.Len() >= limit {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
		space = r == ' '
	}
	return strings.TrimRight(b.String(), " ")
}

// dropControlSequences takes out what begins with ESC [ (ECMA-48, section 5.4), such as colours.
func dropControlSequences(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		s = strings.TrimLeft(after, "0123456789:;<=>?")
		s = strings.TrimLeft(s, " !\"#$%&'()*+,-./")
		if s != "" && s[0] >= '@' && s[0] <= '~' {
			s = s[1:]
		}
	}
}
