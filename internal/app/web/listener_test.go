package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// dial connects to a fixture and says nothing.
func (f *fixture) dial() net.Conn {
	f.t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", f.Port()))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c
}

func (l *guardedListener) count() (strange, known int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.strange), l.known
}

// TestSilentConnections: a program that opens any number of connections, and says nothing on them, takes
// maxConns places and keeps no browser out, neither one that opens the link nor one that has the page.
// holds: security.md#the-page-of-acpctl-web
func TestSilentConnections(t *testing.T) {
	f := newFixture(t, nil)
	fill := func() (last net.Conn) {
		for range 2 * maxConns {
			last = f.dial()
		}
		return last
	}
	first := f.dial()
	last := fill()
	await.Until(t, "all places are taken", func() bool { n, _ := f.listener.count(); return n == maxConns })
	first.SetReadDeadline(time.Now().Add(await.Patience))
	if _, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest has not made way")
	}
	browser, page := f.letIn()
	s, status := f.openStream(browser, page)
	if s.next(); status != http.StatusOK {
		t.Fatal(status)
	}
	fill()
	fill()
	s.until("the stream goes on", func(u *update) bool { return len(u.Parts) > 0 })
	if status, _ := f.ask(browser, "GET", page, ""); status != http.StatusOK {
		t.Error(status)
	}
	if strange, known := f.listener.count(); strange > maxConns || known == 0 || known > maxConns {
		t.Errorf("%d connections without the cookie, %d with it", strange, known)
	}
	s.close()
	browser.CloseIdleConnections()
	last.Close()
	await.Until(t, "places are given back", func() bool { _, known := f.listener.count(); return known == 0 })
}

// TestKnownConnections: whoever has the cookie has maxConns connections at most that make way for none.
// holds: security.md#the-page-of-acpctl-web
func TestKnownConnections(t *testing.T) {
	f := newFixture(t, nil)
	var conns []*guardedConn
	for range maxConns + 2 {
		c, _ := net.Pipe()
		conns = append(conns, f.listener.add(c))
		conns[len(conns)-1].noteCookie()
	}
	if strange, known := f.listener.count(); strange != 2 || known != maxConns {
		t.Errorf("%d without the cookie, %d with it", strange, known)
	}
	for range 2 {
		for _, c := range conns {
			c.Close()
		}
	}
	if strange, known := f.listener.count(); strange != 0 || known != 0 {
		t.Errorf("%d without the cookie, %d with it", strange, known)
	}
}

// TestClosedListenerKeepsNothing: a connection about which the system is being asked while the listener is closed is
// closed with it.
func TestClosedListenerKeepsNothing(t *testing.T) {
	inner, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked, answer, accepted := make(chan bool), make(chan bool), make(chan error)
	l := &guardedListener{Listener: inner, isOwner: func(net.Conn) (bool, error) {
		asked <- true
		return <-answer, nil
	}}
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	c, err := net.Dial("tcp4", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	await.Receive(t, "the system is asked", asked)
	l.Close()
	answer <- true
	if err := await.Receive(t, "Accept ends", accepted); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	c.SetReadDeadline(time.Now().Add(await.Patience))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is open: %v", err)
	}
}
