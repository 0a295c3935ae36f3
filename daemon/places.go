package daemon

import (
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/acpd/acpd/internal/pace"
)

// places bounds the connections of a listener. Where they are that many, one that comes
// gets the place of the connection that has been idle longest; while all are in use it
// waits.
type places struct {
	net.Listener
	most int
	left pace.Signal   // there may be a place, or an idle connection; holds one
	done chan struct{} // closed by Close
	end  func()        // closes done

	mu    sync.Mutex // guards the rest
	held  int
	idle  []*placed // the longest first
	wants bool      // one waits
}

func newPlaces(l net.Listener, most int) *places {
	done := make(chan struct{})
	return &places{Listener: l, most: most, left: pace.NewSignal(), done: done, end: sync.OnceFunc(func() { close(done) })}
}

// placed is a connection that has a place until it is closed.
type placed struct {
	net.Conn
	of     *places
	closed bool // under of.mu
}

func (l *places) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for !l.enter() {
		select {
		case <-l.left:
		case <-l.done:
			c.Close()
			return nil, net.ErrClosed
		}
	}
	return &placed{Conn: c, of: l}, nil
}

func (l *places) Close() error {
	l.end()
	return l.Listener.Close()
}

// enter takes a place, that of an idle connection if need be, and reports whether there
// was one.
func (l *places) enter() bool {
	l.mu.Lock()
	var oldest *placed
	if l.held >= l.most && len(l.idle) > 0 {
		oldest = l.idle[0]
		oldest.drop()
	}
	ok := l.held < l.most
	if ok {
		l.held++
	}
	l.wants = !ok
	l.mu.Unlock()
	if oldest != nil {
		oldest.Conn.Close()
	}
	return ok
}

// drop gives back the place of a connection. The caller holds of.mu.
func (c *placed) drop() {
	if c.closed {
		return
	}
	c.closed = true
	c.rest(false)
	c.of.held--
	c.of.tell()
}

// rest enters whether a connection is idle. The caller holds of.mu.
func (c *placed) rest(idle bool) {
	l := c.of
	if i := slices.Index(l.idle, c); i >= 0 {
		l.idle = slices.Delete(l.idle, i, i+1)
	}
	if idle && !c.closed {
		l.idle = append(l.idle, c)
		l.tell()
	}
}

// tell has one that waits look again. The caller holds mu.
func (l *places) tell() {
	if l.wants {
		l.left.Set()
	}
}

func (c *placed) Close() error {
	c.of.mu.Lock()
	c.drop()
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// noteIdle is an [http.Server]'s ConnState: it tells a connection's listener whether it
// is idle.
func noteIdle(c net.Conn, state http.ConnState) {
	if k, ok := c.(*keyConn); ok {
		c = k.Conn
	}
	if p, ok := c.(*placed); ok {
		p.of.mu.Lock()
		defer p.of.mu.Unlock()
		p.rest(state == http.StateIdle)
	}
}
