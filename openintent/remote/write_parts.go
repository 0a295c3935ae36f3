package remote

import (
	"io"
	"slices"
	"time"
)

const (
	writePart = 64 << 10         // bytes of a part
	stallTime = 30 * time.Second // in which the reader must take a part
)

// WriteInParts writes b to c in parts. It returns an error if the reader does not take a part in
// stallTime, so that no answers are kept for a reader that does not read.
func WriteInParts(c interface {
	io.Writer
	SetWriteDeadline(time.Time) error
}, b []byte) (n int, err error) {
	for part := range slices.Chunk(b, writePart) {
		if err := c.SetWriteDeadline(time.Now().Add(stallTime)); err != nil {
			return n, err
		}
		m, err := c.Write(part)
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
