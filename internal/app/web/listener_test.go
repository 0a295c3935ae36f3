package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
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
// maxStrange places and keeps no browser out, neither one that opens the link nor one that has the page.
// holds: security.md#the-page-of-acpctl-web
func TestSilentConnections(t *testing.T) {
	f := newFixture(t, nil)
	fill := func() (last net.Conn) {
		for range 2 * maxStrange {
			last = f.dial()
		}
		return last
	}
	first := f.dial()
	last := fill()
	await.Until(t, "all places are taken", func() bool { n, _ := f.listener.count(); return n == maxStrange })
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
	if strange, known := f.listener.count(); strange > maxStrange || known == 0 || known > maxKnown {
		t.Errorf("%d connections without the cookie, %d with it", strange, known)
	}
	s.close()
	browser.CloseIdleConnections()
	last.Close()
	await.Until(t, "places are given back", func() bool { _, known := f.listener.count(); return known == 0 })
}

// TestKnownConnections: whoever has the cookie has maxKnown connections at most that make way for none.
// holds: security.md#the-page-of-acpctl-web
func TestKnownConnections(t *testing.T) {
	f := newFixture(t, nil)
	var conns []*guardedConn
	for range maxKnown + 2 {
		c, _ := net.Pipe()
		conns = append(conns, f.listener.add(c))
		conns[len(conns)-1].noteCookie()
	}
	if strange, known := f.listener.count(); strange != 2 || known != maxKnown {
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

// queue is a listener at which connections have come before any is accepted.
type queue struct {
	net.Listener
	conns     []net.Conn
	isLimited bool // it has a deadline
}

func (q *queue) SetDeadline(at time.Time) error {
	q.isLimited = !at.IsZero()
	return nil
}

func (q *queue) Close() error { return nil }

func (q *queue) Accept() (net.Conn, error) {
	switch {
	case len(q.conns) > 0:
		c := q.conns[0]
		q.conns = q.conns[1:]
		return c, nil
	case q.isLimited:
		return nil, os.ErrDeadlineExceeded
	}
	return nil, net.ErrClosed
}

// queued is one of these connections.
type queued struct {
	net.Conn
	from, to net.TCPAddr
	isClosed bool
}

func (c *queued) RemoteAddr() net.Addr { return &c.from }
func (c *queued) LocalAddr() net.Addr  { return &c.to }

func (c *queued) Close() error {
	c.isClosed = true
	return nil
}

// keepAll is a finder by which all connections are the owner's.
func keepAll(conns []net.Conn) ([]callerCheck, error) {
	return slices.Repeat([]callerCheck{callerOwner}, len(conns)), nil
}

// TestClosedListenerKeepsNothing: connections that may speak and that nobody has taken yet are closed with the
// listener, also those of which the system is being asked.
func TestClosedListenerKeepsNothing(t *testing.T) {
	const many = 512
	newQueue := func() (q *queue, all []*queued) {
		q = new(queue)
		for range many {
			all = append(all, new(queued))
			q.conns = append(q.conns, all[len(all)-1])
		}
		return q, all
	}
	countOpen := func(all []*queued) (n int) {
		for _, c := range all {
			if !c.isClosed {
				n++
			}
		}
		return n
	}
	t.Run("that wait for Accept", func(t *testing.T) {
		q, all := newQueue()
		l := &guardedListener{Listener: q, callers: &callerFinder{most: many, find: keepAll}}
		if c, err := l.Accept(); err != nil || c.(*guardedConn).Conn != all[0] {
			t.Fatal(c, err)
		}
		l.Close()
		if n := countOpen(all); n != 1 || all[0].isClosed {
			t.Errorf("%d are open, and the one that was taken is closed: %v", n, all[0].isClosed)
		}
		if c, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v, %v", c, err)
		}
	})
	t.Run("of which the system is asked", func(t *testing.T) {
		q, all := newQueue()
		asked, answer, accepted := make(chan bool), make(chan bool), make(chan error)
		l := &guardedListener{Listener: q, callers: &callerFinder{most: many, find: func(conns []net.Conn) ([]callerCheck, error) {
			asked <- true
			<-answer
			return keepAll(conns)
		}}}
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		await.Receive(t, "the system is asked", asked)
		l.Close()
		answer <- true
		if err := await.Receive(t, "Accept ends", accepted); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if n := countOpen(all); n != 0 {
			t.Errorf("%d are open", n)
		}
	})
}
