package local

import (
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/acpd/acpd/internal/pace"
)

// LimitListener bounds the connections of a listener. If there are maxConns, a new one gets
// the place of the connection that has been idle longest. While all are in use, it waits.
type LimitListener struct {
	net.Listener
	maxConns int
	accepts  *acceptState  // of the loop that calls Accept
	left     pace.Signal   // there may be a place, or an idle connection; holds one
	done     chan struct{} // closed by Close
	end      func()        // closes done

	mu    sync.Mutex // guards the rest
	held  int
	idle  []*limitedConn // the longest first
	wants bool           // one waits
}

// NewLimitListener returns a listener that accepts from l, and has at most most connections. below is
// the patient listener that l accepts from; its rounds go on while a connection waits for a place.
func NewLimitListener(l net.Listener, most int, below *PatientListener) *LimitListener {
	done := make(chan struct{})
	return &LimitListener{Listener: l, maxConns: most, accepts: below.state, left: pace.NewSignal(), done: done, end: sync.OnceFunc(func() { close(done) })}
}

// limitedConn is a connection that has a place until it is closed.
type limitedConn struct {
	net.Conn
	of     *LimitListener
	closed bool // under of.mu
}

func (l *LimitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for !l.reservePlace() {
		select {
		case <-l.left:
		case <-l.accepts.asked: // to wait for a place is no standstill: programs that keep all of them may do so
			l.accepts.rounds.ComeRound()
		case <-l.done:
			c.Close()
			return nil, net.ErrClosed
		}
	}
	return &limitedConn{Conn: c, of: l}, nil
}

func (l *LimitListener) Close() error {
	l.end()
	return l.Listener.Close()
}

// reservePlace takes a place, if need be that of an idle connection, and reports whether there
// was one.
func (l *LimitListener) reservePlace() bool {
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
func (l *LimitListener) signalFreePlace() {
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

// RecordConnState records in its listener whether a connection is idle. It is an
// [http.Server]'s ConnState.
func RecordConnState(c net.Conn, state http.ConnState) {
	if k, ok := c.(*keyConn); ok {
		c = k.Conn
	}
	if p, ok := c.(*limitedConn); ok {
		p.of.mu.Lock()
		defer p.of.mu.Unlock()
		p.setIdle(state == http.StateIdle)
	}
}
