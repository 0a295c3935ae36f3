package wire

import "encoding/binary"

// pairs writes a CBOR map of up to 23 pairs, in the order in which they come.
type pairs []byte

func newPairs(b []byte) pairs { return append(b[:0], majorMap<<5) }

func (p *pairs) key(name string) {
	(*p)[0]++ // the head, which counts
	*p = append(appendHead(*p, majorText, uint64(len(name))), name...)
}

func (p *pairs) uint(name string, n uint64) {
	p.key(name)
	*p = appendHead(*p, majorUint, n)
}

func (p *pairs) bytes(name string, v []byte) {
	p.key(name)
	*p = append(appendHead(*p, majorBytes, uint64(len(v))), v...)
}

func (p *pairs) text(name, v string) {
	p.key(name)
	*p = append(appendHead(*p, majorText, uint64(len(v))), v...)
}

// appendHead appends a major type and its argument in the fewest bytes (RFC 8949,
// section 3).
func appendHead(b []byte, major byte, arg uint64) []byte {
	major <<= 5
	switch {
	case arg < 24:
		return append(b, major|byte(arg))
	case arg < 1<<8:
		return append(b, major|24, byte(arg))
	case arg < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(arg))
	case arg < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(arg))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), arg)
}
