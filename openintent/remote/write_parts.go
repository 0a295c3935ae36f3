package remote

import (
	"io"
	"slices"
	"time"
)

const (
	writePart = 64 << 10         // bytes
	stallTime = 30 * time.Second // a reader that does not take a part for so long is gone
)

// WriteParts writes b as c.Write does, but fails once c's reader does not go on
// reading, so that the answers of who does not are not kept.
func WriteParts(c interface {
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
