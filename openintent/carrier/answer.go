package carrier

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
)

const (
	maxUnread = 32 << 20         // bytes of answers that one home has not yet taken
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

// answer is the answer to a request of another daemon. While that has too many answers
// to take it gets no more to what it reads; what it does is answered always.
type answer struct {
	http.ResponseWriter
	c       *Carrier
	to      *conn
	read    bool
	refused bool // something else was answered
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	size, _ := strconv.Atoi(a.Header().Get("Content-Length"))
	if a.c.take(a.to, size, !a.read) {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	a.refused = true
	a.Header().Set("Retry-After", "1")
	(&openintent.Error{Status: http.StatusTooManyRequests, Code: string(kinds.Overloaded), Message: "answers to other requests of yours have not been taken: come again when they have"}).Answer(a.ResponseWriter)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.refused {
		return len(b), nil
	}
	return a.ResponseWriter.Write(b)
}

// take takes an answer of that size up if there is room for it, or if it must.
func (c *Carrier) take(to *conn, size int, must bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := size
	for o := range c.open {
		if o.home == to.home {
			all += o.size
		}
	}
	if all > maxUnread && !must {
		return false
	}
	to.size = size
	return true
}
