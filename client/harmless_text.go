package client

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text makes text from a peer fit for a terminal. It removes control sequences
// (ECMA-48), control characters other than line feed and tab, and characters that
// hide or reorder the text around them. Invalid UTF-8 becomes U+FFFD. A character
// keeps at most four combining marks, so that it does not reach over the lines above
// and below. Everything else is kept. Text does not check whether the text is true.
func Text(s string) string {
	if isPrintableASCII(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	previous := '\n' // what b ends with
	marks := 0       // in b, on its last character
	unended := 0     // no control string ends before this index
	for i := 0; i < len(s); {
		n, line := measureControlSequence(s[i:], i >= unended)
		if line > 0 {
			unended = i + line
		}
		if n == 0 {
			var r rune
			r, n = utf8.DecodeRuneInString(s[i:])
			if m := countMarks(marks, r); m <= maxMarks && isVisible(r, previous) {
				b.WriteRune(r)
				previous, marks = r, m
			}
		}
		i += n
	}
	return b.String()
}

// Line is [Text] on one line: line feeds and tabs become spaces.
func Line(s string) string { return lineBreaks.Replace(Text(s)) }

var lineBreaks = strings.NewReplacer("\n", " ", "\t", " ")

// maxMarks is how many combining marks a character keeps: as many as pointed Hebrew with an accent needs, and
// Burmese. Few texts that somebody can read need more.
const maxMarks = 4

// countMarks returns how many marks (Unicode, general categories Mn and Me) the last character has after r, if
// it had marks before. Joiners and spacing marks (Mc) continue it.
func countMarks(marks int, r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return marks + 1
	case isJoiner(r), unicode.Is(unicode.Mc, r):
		return marks
	}
	return 0
}

// JSON makes a JSON text fit for a terminal: what [Text] takes out of a string is written
// as an escape there, such as \u202e, which means the same.
func JSON(b []byte) []byte {
	if isPrintableASCII(string(b)) {
		return b
	}
	out := make([]byte, 0, len(b)+len(b)/8)
	previous, marks := '\n', 0
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		b = b[n:]
		if marks = countMarks(marks, r); marks <= maxMarks && isVisible(r, previous) {
			out = utf8.AppendRune(out, r)
			previous = r
			continue
		}
		previous = '0' // the last of the digits
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, "\\u%04x", unit)
		}
	}
	return out
}

// isPrintableASCII reports whether s is printable ASCII, as most text is.
func isPrintableASCII(s string) bool {
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

// isVisible reports whether a terminal may get r after a character. It takes what a model may
// see, and that a terminal has a form for.
func isVisible(r, previous rune) bool {
	return isKept(r, previous) && (unicode.IsGraphic(r) || r == '\n' || r == '\t' || isJoiner(r))
}

// measureControlSequence returns the length n of the control sequence with which s begins, or 0.
// A control string that does not end in its line is not a sequence: only the
// control character that introduces it is taken out, and the rest shows. line is
// then the length of that line, so that its end is not sought again: search false.
func measureControlSequence(s string, search bool) (n, line int) {
	kind, n := readIntroducer(s)
	switch kind {
	case 0:
		return 0, 0
	case '[': // parameters and intermediates, one final
		for n < len(s) && s[n] >= 0x20 && s[n] <= 0x3f {
			n++
		}
		return skipFinalByte(s, n, 0x40), 0
	case ']', 'P', 'X', '^', '_': // up to the string terminator
		if !search {
			return 0, 0
		}
		for n < len(s) && s[n] != '\n' {
			switch {
			case s[n] == '\a':
				return n + 1, 0
			case strings.HasPrefix(s[n:], "\x1b\\"), strings.HasPrefix(s[n:], "\u009c"):
				return n + 2, 0
			}
			n++
		}
		return 0, n
	}
	// Other escapes: intermediates, one final.
	for n = 1; n < len(s) && s[n] >= 0x20 && s[n] <= 0x2f; {
		n++
	}
	return skipFinalByte(s, n, 0x30), 0
}

// skipFinalByte returns the index after the final byte of a sequence, if s[n] is one.
func skipFinalByte(s string, n int, lowest byte) int {
	if n < len(s) && s[n] >= lowest && s[n] <= 0x7e {
		n++
	}
	return n
}

// readIntroducer returns what kind of sequence begins, in its 7-bit form's letter, and
// the introducer's length, or 0.
func readIntroducer(s string) (kind byte, n int) {
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
