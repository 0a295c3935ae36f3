package web

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// quietLog drops what net/http has to say of clients that speak no HTTP.
var quietLog = log.New(io.Discard, "", 0)

// callerCheck is what the system says of who is at the other end of a loopback connection.
type callerCheck int

const (
	callerUnknown callerCheck = iota // this system does not say
	callerOwner                      // a program of this user, or of root, who can read everything anyway
	callerOther
)

// callerFinder asks the system whose the other ends of loopback connections are, which a listener has accepted.
type callerFinder struct {
	most int                                  // connections at a time
	find func(conns []net.Conn) []callerCheck // in their order
}

// gatherTime is how long connections are gathered of which the system is asked together.
const gatherTime = 10 * time.Millisecond

// guardedListener accepts connections of this user alone, where the system says whose they are. While
// there are maxStrange that have not shown the cookie, the oldest of them makes way for a new one: so a
// program that leaves connections open keeps no browser out. One goroutine at a time calls Accept.
type guardedListener struct {
	net.Listener
	callers callerFinder
	passed  []net.Conn // that may speak, for the next calls of Accept

	mu      sync.Mutex     // guards the rest
	strange []*guardedConn // that have not shown the cookie; the oldest first
	known   int            // that have
}

func newGuardedListener(l net.Listener) *guardedListener {
	return &guardedListener{Listener: l, callers: newCallerFinder(l)}
}

// Accept waits for the next connection that may speak, and resets others.
func (l *guardedListener) Accept() (net.Conn, error) {
	for len(l.passed) == 0 {
		conns, err := l.acceptSome()
		if err != nil {
			return nil, err
		}
		for i, check := range l.callers.find(conns) {
			if check == callerOther {
				reset(conns[i])
			} else {
				l.passed = append(l.passed, conns[i])
			}
		}
	}
	c := l.passed[0]
	l.passed = slices.Delete(l.passed, 0, 1)
	return l.add(c), nil
}

// acceptSome waits for a connection, and gathers those that come with it if the system is asked of several
// together.
func (l *guardedListener) acceptSome() (conns []net.Conn, err error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conns = append(conns, c)
	if limited, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok && l.callers.most > 1 {
		limited.SetDeadline(time.Now().Add(gatherTime))
		defer limited.SetDeadline(time.Time{})
		for len(conns) < l.callers.most {
			if c, err = l.Listener.Accept(); err != nil {
				break // if it is not the deadline, the next call says so
			}
			conns = append(conns, c)
		}
	}
	return conns, nil
}

// reset closes a connection so that nothing of it stays in the system's tables.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

func (l *guardedListener) add(c net.Conn) *guardedConn {
	added := &guardedConn{Conn: c, of: l}
	l.mu.Lock()
	var oldest *guardedConn
	if len(l.strange) == maxStrange {
		oldest = l.strange[0]
	}
	l.strange = append(l.strange, added)
	l.mu.Unlock()
	if oldest != nil {
		oldest.Close()
	}
	return added
}

type guardedConn struct {
	net.Conn
	of    *guardedListener
	known bool // guarded by of.mu
}

// noteCookie says that the cookie was shown: the connection makes way for none from now on, unless there
// are maxKnown of them.
func (c *guardedConn) noteCookie() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if i := slices.Index(c.of.strange, c); i >= 0 && c.of.known < maxKnown {
		c.of.strange = slices.Delete(c.of.strange, i, i+1)
		c.known = true
		c.of.known++
	}
}

func (c *guardedConn) Close() error {
	c.of.mu.Lock()
	if i := slices.Index(c.of.strange, c); i >= 0 {
		c.of.strange = slices.Delete(c.of.strange, i, i+1)
	}
	if c.known {
		c.known = false
		c.of.known--
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

func addConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// noteCookie says of a request's connection that it has shown the cookie.
func noteCookie(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*guardedConn); ok {
		c.noteCookie()
	}
}
