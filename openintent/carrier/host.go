package carrier

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
)

// This daemon as the host of agents that are at home at others.

const (
	headTime    = 10 * time.Second // for the head of a request
	requestTime = time.Minute      // for all of it
	maxPassed   = 128              // requests of one home: twice what it may have under way
)

type connKey struct{}

// newServer makes the server of requests that other daemons pass on.
func (c *Carrier) newServer() *http.Server {
	connOf := func(r *http.Request) *conn { return r.Context().Value(connKey{}).(*conn) }
	handler := c.Engine.Handler(func(r *http.Request) (openintent.Caller, error) {
		from := connOf(r)
		err := c.cfg.Admit(from.home)
		if err == nil && from.nth > maxPassed {
			err = kinds.Errorf(kinds.Overloaded, "%d requests of yours are under way there: come again when one has ended", maxPassed)
		}
		if err != nil {
			e, status := kinds.AsError(err), http.StatusForbidden
			if e.Code == kinds.Overloaded {
				status = http.StatusTooManyRequests
			}
			return openintent.Caller{}, &openintent.Error{Status: status, Code: string(e.Code), Message: e.Message}
		}
		return openintent.Remote(from.home.String(), r)
	})
	s := &http.Server{
		// A home says nothing after its request. To the server this would mean that it
		// has left, so a request has the context of its stream instead.
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			from := connOf(r)
			handler.ServeHTTP(&answer{ResponseWriter: w, c: c, to: from, read: r.Method == http.MethodGet}, r.WithContext(from.ctx))
		}),
		ConnContext:    func(_ context.Context, s net.Conn) context.Context { return s.(*conn).ctx },
		MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headTime, ReadTimeout: requestTime,
		ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelDebug),
	}
	s.SetKeepAlivesEnabled(false) // a stream is one request
	return s
}

// Serve answers the request on a peer's stream, for as long as ctx lasts, and returns
// when the stream has ended.
func (c *Carrier) Serve(ctx context.Context, from identity.ID, s Stream) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	ended, end := context.WithCancel(context.Background())
	one := &conn{Stream: s, home: from, end: end}
	one.ctx = context.WithValue(ctx, connKey{}, one)
	c.mu.Lock()
	c.open[one] = true
	for o := range c.open {
		if o.home == from {
			one.nth++
		}
	}
	c.mu.Unlock()
	c.server.Serve(&once{conn: one}) // has begun with it when it returns
	<-ended.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, one)
}

// Review ends the streams of peers that may not have them any more.
func (c *Carrier) Review(may func(identity.ID) bool) {
	c.mu.Lock()
	all := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, s := range all {
		if !may(s.home) {
			s.Cancel()
		}
	}
}

// once is a listener of one connection.
type once struct{ conn *conn }

func (l *once) Accept() (net.Conn, error) {
	c := l.conn
	if c == nil {
		return nil, net.ErrClosed
	}
	l.conn = nil
	return c, nil
}

func (l *once) Close() error   { return nil }
func (l *once) Addr() net.Addr { return new(net.UnixAddr) }

// conn is a stream as a connection.
type conn struct {
	Stream
	home identity.ID
	nth  int                // of the home's that are open
	size int                // bytes of the answer; guarded by the carrier's mu
	ctx  context.Context    // of its request
	end  context.CancelFunc // to be called when it has ended
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := WriteParts(c.Stream, b)
	if err != nil {
		c.Cancel() // closing would wait for the home to read what there is
	}
	return n, err
}

func (c *conn) Close() error {
	defer c.end()
	return c.Stream.Close()
}

func (c *conn) LocalAddr() net.Addr  { return new(net.UnixAddr) }
func (c *conn) RemoteAddr() net.Addr { return &net.UnixAddr{Name: c.home.String()} }
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
