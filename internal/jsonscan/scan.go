// Package jsonscan finds where parts of a JSON text end, many times faster than a parser.
//
// It does not validate the text. What it returns for a text that is not JSON means nothing,
// but stays within the text.
package jsonscan

import "bytes"

// SkipString returns the index after the string at text[at:], or -1 if the string does
// not end. A quote ends it unless an odd number of backslashes stands before the quote.
func SkipString(text []byte, at int) int {
	first := at + 1
	for at = first; ; {
		i := bytes.IndexByte(text[at:], '"')
		if i < 0 {
			return -1
		}
		end := at + i
		at = end
		for at > first && text[at-1] == '\\' {
			at--
		}
		if (end-at)%2 == 0 {
			return end + 1
		}
		at = end + 1
	}
}

// SkipSpace returns the index of the first byte from text[at] on that is no white space,
// or the text's length.
func SkipSpace(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return at
}

// IsNestedDeeper reports whether text nests more than most objects and arrays. A text with few
// brackets cannot, and counting them is many times faster than walking.
func IsNestedDeeper(text []byte, most int) bool {
	if bytes.Count(text, []byte{'{'})+bytes.Count(text, []byte{'['}) <= most {
		return false
	}
	for at, depth := 0, 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			end := SkipString(text, at)
			if end < 0 {
				return false
			}
			at = end - 1
		case '{', '[':
			if depth++; depth > most {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}
