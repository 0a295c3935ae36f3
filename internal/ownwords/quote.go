package ownwords

import (
	"strings"
	"unicode"
)

// MaxQuote is the length in bytes that [Quote] leaves of a text, and a … if there was more.
const MaxQuote = 200

// Quote makes the words of another program fit to be shown to a person: on one line, without what a
// terminal would obey or not show, and cut after 200 bytes.
func Quote(text string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(dropControlSequences(text), "\uFFFD") {
		switch {
		case unicode.IsSpace(r):
			if b.Len() == 0 || strings.HasSuffix(b.String(), " ") {
				continue
			}
			r = ' '
		case !unicode.IsPrint(r), unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			continue
		}
		if b.Len() >= MaxQuote {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimRight(b.String(), " ")
}

// dropControlSequences removes what begins with ESC [ (ECMA-48, section 5.4), such as colours.
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
