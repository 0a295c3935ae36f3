package pipe

import (
	"net"
	"os"
	"sync"
	"time"
)

// ReadFrom returns the next packet of any pipe, and the address of that pipe. It blocks until
// there is one, the read deadline passes, or the link is closed: then the error is net.ErrClosed.
func (l *Link) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case <-l.closed:
		return 0, nil, net.ErrClosed
	default:
	}
	select {
	case f := <-l.received:
		n, from := copy(b, f.packet()), f.from
		f.recycle()
		return n, from, nil
	case <-l.deadline.wait():
		return 0, nil, os.ErrDeadlineExceeded
	case <-l.closed:
		return 0, nil, net.ErrClosed
	}
}

// WriteTo queues a packet for the pipe at addr. It never blocks and returns no error: like a
// socket, it drops a packet for which there is no pipe or no room, and one of over 1,452 bytes.
func (l *Link) WriteTo(b []byte, addr net.Addr) (int, error) {
	l.mu.RLock()
	p := l.pipes[addr.String()]
	l.mu.RUnlock()
	if p == nil || len(b) == 0 || len(b) > maxPacket {
		return len(b), nil
	}
	f := newFrame(b)
	select {
	case p.out <- f:
	default:
		f.recycle()
	}
	return len(b), nil
}

// Close has ReadFrom return net.ErrClosed, and ends Run. It does not wait for Run.
func (l *Link) Close() error {
	l.close()
	return nil
}

// LocalAddr returns the address of the link itself, which nobody dials.
func (l *Link) LocalAddr() net.Addr { return Addr{text: network} }

// SetDeadline sets the read deadline.
func (l *Link) SetDeadline(t time.Time) error { return l.SetReadDeadline(t) }

// SetReadDeadline sets when ReadFrom returns os.ErrDeadlineExceeded; zero: never.
func (l *Link) SetReadDeadline(t time.Time) error {
	l.deadline.set(t)
	return nil
}

// SetWriteDeadline does nothing: WriteTo never blocks.
func (l *Link) SetWriteDeadline(time.Time) error { return nil }

// deadline is a moment that whoever waits can wait for, and that can be set again.
type deadline struct {
	mu     sync.Mutex // guards the rest
	timer  *time.Timer
	passed chan struct{} // closed when the moment has come
}

// set sets the deadline. Zero removes it.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.passed // its function closes that, and holds no lock
	}
	d.timer = nil
	passed := d.passed
	select {
	case <-passed:
		passed = make(chan struct{})
		d.passed = passed
	default:
	}
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0:
		close(passed)
	default:
		d.timer = time.AfterFunc(left, func() { close(passed) })
	}
}

// wait returns a channel that is closed when the moment has come that was set last.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}
