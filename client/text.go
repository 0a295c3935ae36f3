package client

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text makes text from a peer fit for a terminal: control sequences (ECMA-48),
// other control characters but line feed and tab, and characters that hide or
// reorder what stands around them are taken out, invalid UTF-8 becomes U+FFFD.
// What is shown is then all that is there. It says nothing about the truth of it.
func Text(s string) string {
	if shown(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for len(s) > 0 {
		if n := sequence(s); n > 0 {
			s = s[n:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		if visible(r) {
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// Line is [Text] on one line: line feeds and tabs become spaces.
func Line(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(Text(s))
}

// shown reports whether s is printable ASCII, as most text is.
func shown(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\n' && c != '\t') || c > '~' {
			return false
		}
	}
	return true
}

const (
	zeroWidthNonJoiner = '\u200c' // spelling in Persian and in Indic scripts
	zeroWidthJoiner    = '\u200d' // there too, and composed emoji
)

func visible(r rune) bool {
	switch {
	case r == '\n', r == '\t', r == zeroWidthJoiner, r == zeroWidthNonJoiner:
		return true
	case r >= 0xe0100 && r <= 0xe01ef: // variation selectors that can carry hidden text
		return false
	}
	return unicode.IsGraphic(r)
}

// maxString bounds a control string in bytes, and so the search for its end.
const maxString = 2048

// sequence returns the length of the control sequence that s begins with, 0 if
// there is none. A control string that does not end in its line is none: only the
// control character that introduces it is taken out, and the rest shows.
func sequence(s string) int {
	kind, n := introducer(s)
	switch kind {
	case '[': // parameters, intermediates, one final
		for n < len(s) && s[n] >= 0x20 && s[n] <= 0x3f {
			n++
		}
		if n < len(s) && s[n] >= 0x40 && s[n] <= 0x7e {
			n++
		}
		return n
	case ']', 'P', 'X', '^', '_': // up to the string terminator
		for i := n; i < min(len(s), maxString) && s[i] != '\n'; i++ {
			switch {
			case s[i] == '\a':
				return i + 1
			case strings.HasPrefix(s[i:], "\x1b\\"), strings.HasPrefix(s[i:], "\u009c"):
				return i + 2
			}
		}
		return 0
	case 0:
		return 0
	}
	// Other escapes: intermediates, one final.
	for n = 1; n < len(s) && s[n] >= 0x20 && s[n] <= 0x2f; n++ {
	}
	if n < len(s) && s[n] >= 0x30 && s[n] <= 0x7e {
		n++
	}
	return n
}

// introducer returns what kind of sequence begins, in its 7-bit form's letter, and
// the introducer's length; 0 if none.
func introducer(s string) (kind byte, n int) {
	if strings.HasPrefix(s, "\x1b") {
		if len(s) == 1 || s[1] < 0x20 || s[1] > 0x7e {
			return 0, 0
		}
		return s[1], 2
	}
	if len(s) > 1 && s[0] == 0xc2 { // U+0080 to U+009F, the 8-bit forms
		switch c := s[1] - 0x40; c {
		case '[', ']', 'P', 'X', '^', '_':
			return c, 2
		}
	}
	return 0, 0
}
