package relay

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stoppable passes TCP connections on, and stops to read from the server while told so.
type stoppable struct {
	addr    string
	stopped atomic.Bool
}

func newStoppable(t testing.TB, server string) *stoppable {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &stoppable{addr: listener.Addr().String()}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", server)
			if err != nil {
				c.Close()
				continue
			}
			s.(*net.TCPConn).SetReadBuffer(16 << 10)
			wg.Go(func() { p.pass(s, c, func() bool { return false }, done) })
			wg.Go(func() { p.pass(c, s, p.stopped.Load, done) })
		}
	})
	t.Cleanup(func() { listener.Close(); close(done); wg.Wait() })
	return p
}

// pass copies from one connection to the other until either ends.
func (p *stoppable) pass(to, from net.Conn, stopped func() bool, done chan struct{}) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 16<<10)
	for {
		select {
		case <-done:
			return
		default:
		}
		if stopped() {
			time.Sleep(time.Millisecond) // between looks: nobody tells when it goes on
			continue
		}
		from.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := from.Read(b)
		if timeout, ok := err.(net.Error); err != nil && !(ok && timeout.Timeout()) {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
