package channels

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A client that does not read its answer is not waited for.
func TestClientsMustRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		c := newWriteTimeoutConn(here)
		began := time.Now()
		if _, err := c.Write([]byte("HTTP/1.1 200 OK")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
