package kinds

import (
	"bytes"
	"strconv"

	"github.com/acpd/acpd/internal/jsonscan"
)

// maxNumber bounds a number in a payload, in characters.
const maxNumber = 64

// FindUnusableNumber returns the first number in a valid JSON text that common parsers refuse (RFC 8259,
// section 6): one of more than 64 characters, or over the largest double. It returns nil if there is none.
// A whole number that no double holds exactly is usable.
func FindUnusableNumber(text []byte) []byte {
	for at := 0; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"':
			end := jsonscan.SkipString(text, at)
			if end < 0 {
				return nil
			}
			at = end - 1
		case c == '-' || '0' <= c && c <= '9':
			number := text[at : at+len(text[at:])-len(bytes.TrimLeft(text[at:], "+-.0123456789eE"))]
			if !isUsableNumber(number) {
				return number
			}
			at += len(number) - 1
		}
	}
	return nil
}

func isUsableNumber(number []byte) bool {
	if len(number) > maxNumber {
		return false
	}
	_, err := strconv.ParseFloat(string(number), 64)
	return err == nil
}
