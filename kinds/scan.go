package kinds

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"github.com/acpd/acpd/wire"
)

// jsonScanner reads what nearly all payloads are, several times faster than the JSON
// package: objects whose strings have no \u escapes and whose names are few and
// have no escapes at all. If it is not certain that the text is valid (RFC 8259,
// RFC 7493), it gives up, and the JSON package decides.
type jsonScanner struct {
	text  []byte
	names [maxNames]span // of the objects that are open, the outermost first
	n     int
}

const maxNames = 64

type span struct{ from, to int32 }

// scanMembers calls member with each name and value of the object that is the whole
// text. It reports whether all is valid, member's word included.
func (s *jsonScanner) scanMembers(member func(name, value []byte) bool) bool {
	end := s.scanObject(s.skipSpace(0), 1, member)
	return end >= 0 && s.skipSpace(end) == len(s.text)
}

// unsure is returned by the methods below if they give up. Else they return the index
// after the text that they have read.
const unsure = -1

// scanObject reads an object at a depth; the outermost is at 1.
func (s *jsonScanner) scanObject(at, depth int, member func(name, value []byte) bool) int {
	if s.byteAt(at) != '{' || depth > wire.MaxDepth {
		return unsure
	}
	first := s.n
	at = s.skipSpace(at + 1)
	if s.byteAt(at) == '}' {
		return at + 1
	}
	for {
		end := s.scanString(at)
		if end < 0 || !s.addUniqueName(first, at+1, end-1) {
			return unsure
		}
		name := s.text[at+1 : end-1]
		if at = s.skipSpace(end); s.byteAt(at) != ':' {
			return unsure
		}
		at = s.skipSpace(at + 1)
		if end = s.scanValue(at, depth); end < 0 {
			return unsure
		}
		if member != nil && !member(name, s.text[at:end]) {
			return unsure
		}
		switch at = s.skipSpace(end); s.byteAt(at) {
		case ',':
			at = s.skipSpace(at + 1)
		case '}':
			s.n = first
			return at + 1
		default:
			return unsure
		}
	}
}

// addUniqueName stores a name of the object whose names begin at first; false: one that was
// there before, or one too many.
func (s *jsonScanner) addUniqueName(first, from, to int) bool {
	text := s.text[from:to]
	if s.n == maxNames || bytes.IndexByte(text, '\\') >= 0 {
		return false
	}
	for _, other := range s.names[first:s.n] {
		if bytes.Equal(s.text[other.from:other.to], text) {
			return false
		}
	}
	s.names[s.n] = span{int32(from), int32(to)}
	s.n++
	return true
}

func (s *jsonScanner) scanArray(at, depth int) int {
	if depth > wire.MaxDepth {
		return unsure
	}
	at = s.skipSpace(at + 1)
	if s.byteAt(at) == ']' {
		return at + 1
	}
	for {
		end := s.scanValue(at, depth)
		if end < 0 {
			return unsure
		}
		switch at = s.skipSpace(end); s.byteAt(at) {
		case ',':
			at = s.skipSpace(at + 1)
		case ']':
			return at + 1
		default:
			return unsure
		}
	}
}

func (s *jsonScanner) scanValue(at, depth int) int {
	switch s.byteAt(at) {
	case '"':
		return s.scanString(at)
	case '{':
		return s.scanObject(at, depth+1, nil)
	case '[':
		return s.scanArray(at, depth+1)
	case 't':
		return s.scanLiteral(at, "true")
	case 'f':
		return s.scanLiteral(at, "false")
	case 'n':
		return s.scanLiteral(at, "null")
	}
	return s.scanNumber(at)
}

func (s *jsonScanner) scanLiteral(at int, w string) int {
	if bytes.HasPrefix(s.text[at:], []byte(w)) {
		return at + len(w)
	}
	return unsure
}

// scanNumber gives up on a number that may be unusable (see [FindUnusableNumber]): one with more than
// maxNumber characters, or three digits of an exponent.
func (s *jsonScanner) scanNumber(at int) int {
	start := at
	if s.byteAt(at) == '-' {
		at++
	}
	whole := at
	at = s.skipDigits(at)
	if at == whole || s.text[whole] == '0' && at > whole+1 {
		return unsure
	}
	if s.byteAt(at) == '.' {
		fraction := at + 1
		if at = s.skipDigits(fraction); at == fraction {
			return unsure
		}
	}
	if c := s.byteAt(at); c == 'e' || c == 'E' {
		at++
		if c := s.byteAt(at); c == '+' || c == '-' {
			at++
		}
		exponent := at
		if at = s.skipDigits(exponent); at == exponent || at > exponent+2 {
			return unsure
		}
	}
	if at > start+maxNumber {
		return unsure
	}
	return at
}

func (s *jsonScanner) skipDigits(at int) int {
	for c := s.byteAt(at); '0' <= c && c <= '9'; c = s.byteAt(at) {
		at++
	}
	return at
}

func (s *jsonScanner) scanString(at int) int {
	if s.byteAt(at) != '"' {
		return unsure
	}
	at++
	quote := -1 // the first one that is not before at
	for {
		if quote < at {
			i := bytes.IndexByte(s.text[at:], '"')
			if i < 0 {
				return unsure
			}
			quote = at + i
		}
		run := s.text[at:quote]
		escape := bytes.IndexByte(run, '\\')
		if escape >= 0 {
			run = run[:escape]
		}
		if !isPlainText(run) {
			return unsure
		}
		if escape < 0 {
			return quote + 1
		}
		at += escape + 2
		switch s.byteAt(at - 1) {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		default:
			return unsure
		}
	}
}

// isPlainText reports whether text is UTF-8 without control characters. It looks at
// many bytes at a time, for it is where large payloads spend their time.
func isPlainText(text []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	var all, low uint64 // low gets the top bit of each byte below a space, and of others only beside one
	rest := text
	for ; len(rest) >= 32; rest = rest[32:] {
		w, x := binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:])
		y, z := binary.LittleEndian.Uint64(rest[16:]), binary.LittleEndian.Uint64(rest[24:])
		all |= w | x | y | z
		low |= (w-' '*ones)&^w | (x-' '*ones)&^x | (y-' '*ones)&^y | (z-' '*ones)&^z
	}
	for ; len(rest) >= 8; rest = rest[8:] {
		x := binary.LittleEndian.Uint64(rest)
		all |= x
		low |= (x - ' '*ones) &^ x
	}
	for _, c := range rest {
		all |= uint64(c)
		low |= (uint64(c) - ' ') &^ uint64(c)
	}
	return low&tops == 0 && (all&tops == 0 || utf8.Valid(text))
}

func (s *jsonScanner) skipSpace(at int) int {
	for c := s.byteAt(at); c == ' ' || c == '\n' || c == '\t' || c == '\r'; c = s.byteAt(at) {
		at++
	}
	return at
}

// byteAt returns 0, which stands nowhere in JSON, behind the end.
func (s *jsonScanner) byteAt(at int) byte {
	if at < len(s.text) {
		return s.text[at]
	}
	return 0
}
