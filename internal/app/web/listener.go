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
	most int // connections at a time; find may change it

	// find returns what the system says of each connection, in their order. An error is why it says nothing
	// of some, which are callerOther then. One goroutine at a time calls it.
	find func(conns []net.Conn) ([]callerCheck, error)
}

const (
	gatherTime = 10 * time.Millisecond // in which connections are gathered, to ask the system about them together
	silentTime = 10 * time.Second      // at least, between two lines which say that the system says nothing
)

// guardedListener accepts only connections of this user, if the system tells whose they are. While
// there are maxStrange that have not shown the cookie, a new one replaces the oldest: so a
// program that leaves connections open keeps no browser out. One goroutine at a time calls Accept.
type guardedListener struct {
	net.Listener
	callers *callerFinder
	tell    func(line string) // tells the person at the terminal
	told    time.Time         // when tell was called last

	mu      sync.Mutex     // guards the rest
	closed  bool           // nothing passes any more
	passed  []net.Conn     // that may speak, for the next calls of Accept
	strange []*guardedConn // that have not shown the cookie; the oldest first
	known   int            // that have
}

// newGuardedListener returns a listener that accepts what l accepts of this user. Accept calls tell.
func newGuardedListener(l net.Listener, tell func(line string)) *guardedListener {
	return &guardedListener{Listener: l, callers: newCallerFinder(l), tell: tell}
}

// Accept waits for the next connection that may speak, and resets others. Once the listener is closed, it
// resets all, and returns an error.
func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		if c := l.takePassed(); c != nil {
			return l.add(c), nil
		}
		conns, err := l.acceptSome()
		if err != nil {
			return nil, err
		}
		checks, err := l.callers.find(conns)
		if err != nil {
			l.tellSilence(err)
		}
		for i, c := range conns {
			if checks[i] == callerOther || !l.pass(c) {
				reset(c)
			}
		}
	}
}

// pass keeps a connection for Accept, unless the listener is closed.
func (l *guardedListener) pass(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.passed = append(l.passed, c)
	}
	return !l.closed
}

// takePassed returns the connection that has waited longest for Accept, or nil.
func (l *guardedListener) takePassed() (c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.passed) > 0 {
		c = l.passed[0]
		l.passed = slices.Delete(l.passed, 0, 1)
	}
	return c
}

// Close closes the listener, and the connections that Accept has not returned yet. It does not wait for
// Accept, which resets those that it is asking the system about.
func (l *guardedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	passed := l.passed
	l.passed = nil
	l.mu.Unlock()
	for _, c := range passed {
		reset(c)
	}
	return l.Listener.Close()
}

// tellSilence prints that connections were refused because the system does not tell whose they are, unless it did so in
// the last silentTime.
func (l *guardedListener) tellSilence(why error) {
	if now := time.Now(); now.Sub(l.told) >= silentTime {
		l.told = now
		l.tell("the system does not say whose a connection is, and nobody is let in without that: " + why.Error() +
			": load the page again; if it stays away, run acpctl web again")
	}
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
				break // if it is another error than the deadline, the next call returns it
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
