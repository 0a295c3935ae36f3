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

// ownerCheck asks the system whether the other end of a connection is a program of this user. An error says why the
// system does not answer. One goroutine at a time calls it.
type ownerCheck func(net.Conn) (isOwner bool, err error)

// silentTime is how long a line that the system does not answer is not repeated.
const silentTime = 10 * time.Second

// guardedListener accepts only connections of this user, if the system tells whose they are. While
// there are maxConns that have not shown the cookie, a new one replaces the oldest: so a
// program that leaves connections open keeps no browser out. One goroutine at a time calls Accept.
type guardedListener struct {
	net.Listener
	isOwner ownerCheck        // nil if the system does not say whose a connection is
	tell    func(line string) // tells the person at the terminal
	told    time.Time         // when tell was called last

	mu      sync.Mutex     // guards the rest
	closed  bool           // no connection is accepted any more
	strange []*guardedConn // that have not shown the cookie; the oldest first
	known   int            // that have
}

// newGuardedListener returns a listener that accepts what l accepts of this user. Accept calls tell.
func newGuardedListener(l net.Listener, tell func(line string)) *guardedListener {
	return &guardedListener{Listener: l, isOwner: newOwnerCheck(l), tell: tell}
}

// Accept waits for the next connection of this user, and resets others. Once the listener is closed, it
// resets all, and returns an error.
func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		passes := l.isOwner == nil
		if !passes {
			if passes, err = l.isOwner(c); err != nil {
				l.tellSilence(err)
			}
		}
		if passes {
			if added := l.add(c); added != nil {
				return added, nil
			}
		}
		reset(c)
	}
}

// Close closes the listener. It does not wait for Accept, which resets the connection that it is asking the system about.
func (l *guardedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	return l.Listener.Close()
}

// tellSilence prints that a connection was refused because the system does not tell whose it is, unless it did so in
// the last silentTime.
func (l *guardedListener) tellSilence(why error) {
	if now := time.Now(); now.Sub(l.told) >= silentTime {
		l.told = now
		l.tell("the system does not say whose a connection is, and nobody is let in without that: " + why.Error() +
			": load the page again; if it stays away, run acpctl web again")
	}
}

// reset closes a connection so that nothing of it stays in the system's tables.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

// add returns a connection that may speak, or nil if the listener is closed.
func (l *guardedListener) add(c net.Conn) *guardedConn {
	added := &guardedConn{Conn: c, of: l}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	var oldest *guardedConn
	if len(l.strange) == maxConns {
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
// are maxConns of them.
func (c *guardedConn) noteCookie() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if i := slices.Index(c.of.strange, c); i >= 0 && c.of.known < maxConns {
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
