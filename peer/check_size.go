package peer

import (
	"bytes"
	"errors"
	"io"

	"github.com/acpd/acpd/kinds"
)

// checkSize returns too_large if the envelope has more than limit bytes.
func (s *encodedEnvelope) checkSize(kind string, limit int) error {
	if size := s.buf.Len() - 1; size > limit {
		return kinds.Errorf(kinds.TooLarge, "%s: the envelope has %d bytes, %d are allowed; send less, or a reference to it", kind, size, limit).WithDelivered(kinds.DeliveredNo)
	}
	return nil
}

var errTooLarge = errors.New("message too large")

// readLimited reads to the end of the stream. The error is errTooLarge beyond limit bytes,
// and that of reserve, which is called with the size of each piece.
func readLimited(r io.Reader, buf *bytes.Buffer, limit int, reserve func(int) error) error {
	for {
		buf.Grow(2 << 10)
		b := buf.AvailableBuffer()
		n, err := r.Read(b[:cap(b)])
		buf.Write(b[:n])
		if buf.Len() > limit {
			return errTooLarge
		}
		if over := reserve(n); over != nil {
			return over
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
