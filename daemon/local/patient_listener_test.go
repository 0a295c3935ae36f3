package local

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// poorListener fails until it is paid for, and then has connections.
type poorListener struct {
	failing error
	left    int // errors before the next connection
	asked   []time.Time
	closed  chan struct{}
	once    sync.Once
}

func (l *poorListener) Accept() (net.Conn, error) {
	l.asked = append(l.asked, time.Now())
	if l.left > 0 {
		l.left--
		return nil, &net.OpError{Op: "accept", Err: l.failing}
	}
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	c, _ := net.Pipe()
	return c, nil
}

func (l *poorListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *poorListener) Addr() net.Addr { return &net.UnixAddr{Name: "acp.sock"} }

// TestAcceptWaits: a lack that passes is waited out, from 5 ms to 1 s a time, and
// said once; closing ends the wait.
// holds: security.md#on-this-machine
func TestAcceptWaits(t *testing.T) {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS} {
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			poor := &poorListener{failing: lack, left: 20, closed: make(chan struct{})}
			l := NewPatientListener(poor, slog.New(slog.NewTextHandler(&said, nil)))
			c, err := l.Accept()
			if err != nil {
				t.Fatalf("%v: %v", lack, err)
			}
			c.Close()
			var pauses []time.Duration
			for i, at := range poor.asked[1:] {
				pauses = append(pauses, at.Sub(poor.asked[i]))
			}
			if first, last := pauses[0], pauses[len(pauses)-1]; len(pauses) != 20 || first != firstPause || last != longPause {
				t.Errorf("%v: %d pauses from %s to %s", lack, len(pauses), first, last)
			}
			if n := strings.Count(said.String(), "\n"); n != 1 || !strings.Contains(said.String(), "ulimit -n") {
				t.Errorf("%v: the log says %q", lack, said.String())
			}
			poor.left = 1 << 30
			ended := make(chan error)
			go func() { _, err := l.Accept(); ended <- err }()
			time.Sleep(time.Hour)
			l.Close()
			if err := <-ended; err != net.ErrClosed {
				t.Errorf("%v: after Close: %v", lack, err)
			}
		})
	}
}

// TestKeylessConnectionsEnd: however it spends the time, a connection has 10 s in
// all to show a key; with one it stays.
// holds: security.md#in-channels
func TestKeylessConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewKeyListener(&poorListener{closed: make(chan struct{})}, 2*MaxKeylessConns)
		keyless, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		keyed, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		keyed.(*keyConn).exemptFromTimeout()
		begun := time.Now()
		if _, err := keyless.Read(make([]byte, 1)); err != io.ErrClosedPipe || time.Since(begun) != keylessTime {
			t.Errorf("without a key: %v after %s", err, time.Since(begun))
		}
		keyed.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := keyed.Read(make([]byte, 1)); err == io.ErrClosedPipe {
			t.Error("a connection with a key has ended")
		}
		keyed.Close()
	})
}
