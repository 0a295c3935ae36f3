package web

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
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

// guardedListener accepts connections of this user alone, where the system says whose they are. While
// there are maxStrange that have not shown the cookie, the oldest of them makes way for a new one: so a
// program that leaves connections open keeps no browser out.
type guardedListener struct {
	net.Listener
	findCaller func(net.Conn) callerCheck

	mu      sync.Mutex     // guards the rest
	strange []*guardedConn // that have not shown the cookie; the oldest first
	known   int            // that have
}

func newGuardedListener(l net.Listener) *guardedListener {
	return &guardedListener{Listener: l, findCaller: newCallerFinder(l)}
}

// Accept waits for the next connection that may speak, and closes others.
func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.findCaller(c) == callerOther {
			c.Close()
			continue
		}
		return l.add(c), nil
	}
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
