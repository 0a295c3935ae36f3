package wire

import (
	"encoding/binary"
	"io"
)

// appendVarint appends n < 2^30 as a QUIC variable-length integer (RFC 9000,
// section 16): the two top bits of the first byte tell its length.
func appendVarint(b []byte, n uint64) []byte {
	switch {
	case n < 1<<6:
		return append(b, byte(n))
	case n < 1<<14:
		return binary.BigEndian.AppendUint16(b, uint16(n)|0x4000)
	}
	return binary.BigEndian.AppendUint32(b, uint32(n)|0x80000000)
}

// readVarint reads one variable-length integer of any length. The error is io.EOF only if
// nothing was read.
func readVarint(r io.ByteReader) (uint64, error) {
	first, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	n := uint64(first & 0x3f)
	for range 1<<(first>>6) - 1 {
		c, err := r.ReadByte()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		n = n<<8 | uint64(c)
	}
	return n, nil
}
