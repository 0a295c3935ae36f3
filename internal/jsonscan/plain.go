package jsonscan

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// maxNames bounds the names of the objects that are open at a time: they are compared pairwise.
const maxNames = 64

// IsPlainObject reports whether text is one valid JSON object (RFC 8259, RFC 7493) that nests at
// most maxDepth objects and arrays and has no unusable number ([FindUnusableNumber]), and whether
// member has returned true for each name and value of it. It is several times faster than the
// JSON package. It also returns false for a valid object whose strings have \u escapes, or whose
// names are many or have escapes: the JSON package decides about these.
func IsPlainObject(text []byte, maxDepth int, member func(name, value []byte) bool) bool {
	p := plainText{text: text, maxDepth: maxDepth}
	end := p.skipObject(SkipSpace(text, 0), 1, member)
	return end >= 0 && SkipSpace(text, end) == len(text)
}

// plainText is a text that [IsPlainObject] reads. Its methods return the index after what they
// have read, or -1 if that is not plain.
type plainText struct {
	text     []byte
	maxDepth int
	names    [maxNames][]byte // of the objects that are open, the outermost first
	count    int
}

// skipObject reads an object at a depth; the outermost is at 1.
func (p *plainText) skipObject(at, depth int, member func(name, value []byte) bool) int {
	if depth > p.maxDepth {
		return -1
	}
	first := p.count
	end := Members(p.text, at, func(quoted []byte, at int) int {
		name := quoted[1 : len(quoted)-1]
		end := p.skipValue(at, depth)
		if end < 0 || !p.addUniqueName(first, name) || member != nil && !member(name, p.text[at:end]) {
			return -1
		}
		return end
	})
	p.count = first
	return end
}

// addUniqueName stores a name of the object whose names begin at first. It returns false if the
// object has it already, or if it is not plain or one too many.
func (p *plainText) addUniqueName(first int, name []byte) bool {
	if p.count == maxNames || bytes.IndexByte(name, '\\') >= 0 || !isPlainText(name) {
		return false
	}
	for _, other := range p.names[first:p.count] {
		if bytes.Equal(other, name) {
			return false
		}
	}
	p.names[p.count] = name
	p.count++
	return true
}

// skipValue reads a value in an object or array at a depth.
func (p *plainText) skipValue(at, depth int) int {
	switch byteAt(p.text, at) {
	case '{':
		return p.skipObject(at, depth+1, nil)
	case '[':
		if depth == p.maxDepth {
			return -1
		}
		return elements(p.text, at, ']', func(at int) int { return p.skipValue(at, depth+1) })
	}
	end := SkipValue(p.text, at)
	if end < 0 {
		return -1
	}
	switch value := p.text[at:end]; value[0] {
	case '"':
		if !isPlainString(value[1 : len(value)-1]) {
			return -1
		}
	case 't', 'f', 'n':
	default:
		if !isUsableNumber(value) {
			return -1
		}
	}
	return end
}

// isPlainString reports whether the inside of a string is valid and has no \u escapes.
func isPlainString(inside []byte) bool {
	for {
		run, rest, isEscaped := bytes.Cut(inside, []byte{'\\'})
		if !isPlainText(run) {
			return false
		}
		if !isEscaped {
			return true
		}
		switch rest[0] { // the quote that ends the string is not escaped, so something follows
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		default:
			return false
		}
		inside = rest[1:]
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
