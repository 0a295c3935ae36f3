package jsonscan

import (
	"bytes"
	"strconv"
)

// MaxNumber bounds a usable number, in characters.
const MaxNumber = 64

// FindUnusableNumber returns the first number in a valid JSON text that common parsers refuse (RFC 8259,
// section 6): one of more than 64 characters, or over the largest double. It returns nil if there is none.
// A whole number that no double holds exactly is usable.
func FindUnusableNumber(text []byte) []byte {
	for at := 0; at < len(text); at++ {
		end := at + 1
		switch c := text[at]; {
		case c == '"':
			end = SkipString(text, at)
		case c == '-' || '0' <= c && c <= '9':
			if end = skipNumber(text, at); end > 0 && !isUsableNumber(text[at:end]) {
				return text[at:end]
			}
		}
		if end < 0 {
			return nil
		}
		at = end - 1
	}
	return nil
}

func isUsableNumber(number []byte) bool {
	if len(number) > MaxNumber {
		return false
	}
	if bytes.IndexByte(number, 'e') < 0 && bytes.IndexByte(number, 'E') < 0 {
		return true // the largest double has more digits than MaxNumber
	}
	_, err := strconv.ParseFloat(string(number), 64)
	return err == nil
}
