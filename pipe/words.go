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

// lastLine keeps the last line that has text, as far as its first 1 KiB go. Any number of
// goroutines may use it.
type lastLine struct {
	mu   sync.Mutex // guards the rest
	line []byte     // the unfinished one
	last []byte
}

// Write takes what a command says. It never fails.
func (l *lastLine) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		part, rest, ends := b, b[len(b):], false
		if i := bytes.IndexAny(b, "\r\n"); i >= 0 {
			part, rest, ends = b[:i], b[i+1:], true
		}
		l.line = append(l.line, part[:min(len(part), maxLine-len(l.line))]...)
		if ends {
			l.endLine()
		}
		b = rest
	}
	return n, nil
}

// endLine is called with mu held.
func (l *lastLine) endLine() {
	if len(bytes.TrimSpace(l.line)) > 0 {
		l.last = append(l.last[:0], l.line...)
	}
	l.line = l.line[:0]
}

// words returns the line as an error shows it, "" if there is none. An unfinished line counts.
func (l *lastLine) words() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLine()
	if len(l.last) == 0 {
		return ""
	}
	return quoteWords(l.last)
}

// quoteWords returns text of a command as an error shows it: on one line, without what a terminal
// would obey or not show, cut, and in quotes. It is the command's claim and may be the words of
// another machine.
func quoteWords(text []byte) string {
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
		if b.Len() >= maxWords {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
		space = r == ' '
	}
	return `"` + strings.TrimRight(b.String(), " ") + `"`
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
