package daemon

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// This daemon as the host of agents that are at home at others.

// openHomes makes the server of requests that other daemons pass on.
func (d *Daemon) openHomes() {
	type homeKey struct{}
	c := d.channels
	c.homes = newHomeListener()
	d.node.Handle(wire.StreamHTTP, policyChannel, c.homes.serve)
	c.homes.server = c.add(d.log, c.homes, func(r *http.Request) (openintent.Caller, error) {
		from := r.Context().Value(homeKey{}).(identity.ID)
		p, ok := d.trust.Get(from)
		if !ok {
			return openintent.Caller{}, &openintent.Error{Status: http.StatusForbidden, Code: string(kinds.NotTrusted), Message: "you are not trusted there any more"}
		}
		if err := d.gate.admit(p, policyChannel, ""); err != nil {
			return openintent.Caller{}, refusal(err)
		}
		return openintent.Remote(from.String(), r)
	})
	c.homes.server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, homeKey{}, c.(*homeConn).from)
	}
	c.homes.server.SetKeepAlivesEnabled(false) // a stream is one request
}

// refusal is what a policy or a rate limit says, as an answer.
func refusal(err error) *openintent.Error {
	e := kinds.AsError(err)
	status := http.StatusForbidden
	if e.Code == kinds.Overloaded {
		status = http.StatusTooManyRequests
	}
	return &openintent.Error{Status: status, Code: string(e.Code), Message: e.Message}
}

// homeListener takes the streams of other daemons for an [http.Server].
type homeListener struct {
	server  *http.Server
	streams chan *homeConn
	done    chan struct{}
	close   func()

	mu   sync.Mutex
	open map[*homeConn]bool // guarded by mu
}

func newHomeListener() *homeListener {
	l := &homeListener{streams: make(chan *homeConn), done: make(chan struct{}), open: make(map[*homeConn]bool)}
	l.close = sync.OnceFunc(func() { close(l.done) })
	return l
}

// serve hands a peer's stream to the server and returns when that is done with it.
func (l *homeListener) serve(ctx context.Context, from identity.ID, s *peer.Stream) {
	c := &homeConn{Stream: s, from: from, ctx: ctx, done: make(chan struct{})}
	c.hangup = sync.OnceValue(func() error {
		defer close(c.done)
		return s.Close()
	})
	l.mu.Lock()
	l.open[c] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, c)
	}()
	select {
	case l.streams <- c:
		<-c.done
	case <-l.done:
		s.Cancel()
	}
}

// review ends the streams of peers that may not have them any more.
func (l *homeListener) review(may func(identity.ID) bool) {
	l.mu.Lock()
	all := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range all {
		if !may(c.from) {
			c.Cancel()
		}
	}
}

func (l *homeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.streams:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *homeListener) Close() error {
	l.close()
	return nil
}

func (l *homeListener) Addr() net.Addr { return homeAddr{} }

// homeConn is a stream as a connection.
type homeConn struct {
	*peer.Stream
	from   identity.ID
	ctx    context.Context // ends with the stream
	done   chan struct{}
	hangup func() error
}

// Read hides that the other side has nothing more to say: to a server this would
// mean that it has left.
func (c *homeConn) Read(b []byte) (int, error) {
	n, err := c.Stream.Read(b)
	if err != io.EOF || len(b) == 0 {
		return n, err
	}
	if n > 0 {
		return n, nil
	}
	select {
	case <-c.ctx.Done():
	case <-c.done:
	}
	return 0, io.EOF
}

func (c *homeConn) Close() error         { return c.hangup() }
func (c *homeConn) LocalAddr() net.Addr  { return homeAddr{} }
func (c *homeConn) RemoteAddr() net.Addr { return homeAddr{c.from} }
func (c *homeConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// homeAddr is the address of a daemon: its id.
type homeAddr struct{ id identity.ID }

func (homeAddr) Network() string  { return "acp" }
func (a homeAddr) String() string { return a.id.String() }
