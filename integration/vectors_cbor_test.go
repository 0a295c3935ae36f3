package integration

import (
	"bytes"
	"encoding/binary"
)

// CBOR, item by item (RFC 8949, section 3).

func head(major byte, n uint64) []byte {
	b := []byte{major << 5}
	switch {
	case n < 24:
		b[0] |= byte(n)
		return b
	case n < 1<<8:
		b[0] |= 24
		return append(b, byte(n))
	case n < 1<<16:
		b[0] |= 25
		return binary.BigEndian.AppendUint16(b, uint16(n))
	case n < 1<<32:
		b[0] |= 26
		return binary.BigEndian.AppendUint32(b, uint32(n))
	}
	b[0] |= 27
	return binary.BigEndian.AppendUint64(b, n)
}

func num(n uint64) []byte { return head(0, n) }

func neg(n uint64) []byte { return head(1, n-1) } // -n

func bin(b []byte) []byte { return append(head(2, uint64(len(b))), b...) }

func str(s string) []byte { return append(head(3, uint64(len(s))), s...) }

func raw(s string) []byte { return []byte(s) }

func arr(a ...[]byte) []byte { return append(head(4, uint64(len(a))), bytes.Join(a, nil)...) }

type pair struct {
	key   string
	value []byte
}

func dict(pairs ...pair) []byte {
	b := head(5, uint64(len(pairs)))
	for _, p := range pairs {
		b = append(append(b, str(p.key)...), p.value...)
	}
	return b
}

// nest puts an integer into so many arrays.
func nest(levels int) []byte {
	return append(bytes.Repeat([]byte{0x81}, levels), 0)
}
