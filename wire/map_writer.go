package wire

import "encoding/binary"

// mapWriter writes a CBOR map of up to 23 pairs, in the order in which they come.
type mapWriter []byte

func newMapWriter(b []byte) mapWriter { return append(b[:0], majorMap<<5) }

// countPair adds one pair to the map's head. The caller writes the pair.
func (p *mapWriter) countPair() { (*p)[0]++ }

func (p *mapWriter) addKey(name string) {
	p.countPair()
	*p = append(appendCBORHead(*p, majorText, uint64(len(name))), name...)
}

func (p *mapWriter) addUint(name string, n uint64) {
	p.addKey(name)
	*p = appendCBORHead(*p, majorUint, n)
}

func (p *mapWriter) addBytes(name string, v []byte) {
	p.addKey(name)
	*p = append(appendCBORHead(*p, majorBytes, uint64(len(v))), v...)
}

func (p *mapWriter) addText(name, v string) {
	p.addKey(name)
	*p = append(appendCBORHead(*p, majorText, uint64(len(v))), v...)
}

// appendCBORHead appends a major type and its argument in the fewest bytes (RFC 8949,
// section 3).
func appendCBORHead(b []byte, major byte, arg uint64) []byte {
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
