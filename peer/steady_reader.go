package peer

import (
	"errors"
	"io"
	"os"
	"time"
)

// deadlineReader is a stream of the peer: one direction of it, or both.
type deadlineReader interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

// steadyReader reads a stream until the peer has sent nothing for byteTime, or until end, and then
// fails with os.ErrDeadlineExceeded. It moves the stream's deadline when that passes, not with each
// read: a large message comes in hundreds of them.
type steadyReader struct {
	stream deadlineReader
	heard  time.Time // when the last bytes came
	end    time.Time
}

func (r *steadyReader) Read(b []byte) (int, error) {
	for {
		n, err := r.stream.Read(b)
		if n > 0 {
			r.heard = time.Now()
		}
		if err == nil || err == io.EOF || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		deadline := r.heard.Add(byteTime)
		if deadline.After(r.end) {
			deadline = r.end
		}
		if !time.Now().Before(deadline) {
			return n, err
		}
		if err := r.stream.SetReadDeadline(deadline); err != nil || n > 0 {
			return n, err
		}
	}
}
