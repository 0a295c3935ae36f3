package daemon

import (
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/acpd/acpd/internal/pace"
)

// limitListener bounds the connections of a listener. If there are maxConns, a new one gets
// the place of the connection that has been idle longest. While all are in use, it waits.
type limitListener struct {
	net.Listener
	maxConns int
	accepts  *acceptState  // of the loop that calls Accept; nil: nobody asks whether it goes on
	left     pace.Signal   // there may be a place, or an idle connection; holds one
	done     chan struct{} // closed by Close
	end      func()        // closes done

	mu    sync.Mutex // guards the rest
	held  int
	idle  []*limitedConn // the longest first
	wants bool           // one waits
}

func newLimitListener(l net.Listener, most int) *limitListener {
	done := make(chan struct{})
	return &limitListener{Listener: l, maxConns: most, left: pace.NewSignal(), done: done, end: sync.OnceFunc(func() { close(done) })}
}

// limitedConn is a connection that has a place until it is closed.
type limitedConn struct {
	net.Conn
	of     *limitListener
	closed bool // under of.mu
}

func (l *limitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	var asked pace.Signal
	if l.accepts != nil {
		asked = l.accepts.asked
	}
	for !l.reservePlace() {
		select {
		case <-l.left:
		case <-asked: // to wait for a place is no standstill: programs that keep all of them may do so
			l.accepts.rounds.ComeRound()
		case <-l.done:
			c.Close()
			return nil, net.ErrClosed
		}
	}
	return &limitedConn{Conn: c, of: l}, nil
}

func (l *limitListener) Close() error {
	l.end()
	return l.Listener.Close()
}

// reservePlace takes a place, if need be that of an idle connection, and reports whether there
// was one.
func (l *limitListener) reservePlace() bool {
	l.mu.Lock()
	var oldest *limitedConn
	if l.held >= l.maxConns && len(l.idle) > 0 {
		oldest = l.idle[0]
		oldest.releasePlace()
	}
	ok := l.held < l.maxConns
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

// releasePlace gives back the place of a connection. The caller holds of.mu.
func (c *limitedConn) releasePlace() {
	if c.closed {
		return
	}
	c.closed = true
	c.setIdle(false)
	c.of.held--
	c.of.signalFreePlace()
}

// setIdle records whether a connection is idle. The caller holds of.mu.
func (c *limitedConn) setIdle(idle bool) {
	l := c.of
	if i := slices.Index(l.idle, c); i >= 0 {
		l.idle = slices.Delete(l.idle, i, i+1)
	}
	if idle && !c.closed {
		l.idle = append(l.idle, c)
		l.signalFreePlace()
	}
}

// signalFreePlace wakes a connection that waits for a place. The caller holds mu.
func (l *limitListener) signalFreePlace() {
	if l.wants {
		l.left.Set()
	}
}

func (c *limitedConn) Close() error {
	c.of.mu.Lock()
	c.releasePlace()
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// recordConnState records in its listener whether a connection is idle. It is an
// [http.Server]'s ConnState.
func recordConnState(c net.Conn, state http.ConnState) {
	if k, ok := c.(*keyConn); ok {
		c = k.Conn
	}
	if p, ok := c.(*limitedConn); ok {
		p.of.mu.Lock()
		defer p.of.mu.Unlock()
		p.setIdle(state == http.StateIdle)
	}
}
