package remote

import (
	"context"
	"errors"
	"io"
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
)

type connKey struct{}

// newServer makes the server of requests that other daemons pass on.
func (c *Carrier) newServer() *http.Server {
	connOf := func(r *http.Request) *conn { return r.Context().Value(connKey{}).(*conn) }
	handler := c.Engine.Handler(func(r *http.Request) (openintent.Caller, error) {
		return openintent.Remote(connOf(r).home.String(), r)
	})
	s := &http.Server{
		// A home says nothing after its request. To the server this would mean that it
		// has left, so a request has the context of its stream instead.
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			from := connOf(r)
			if refusal := c.refuses(from); refusal != nil { // whatever it asks for
				refusal.Answer(w)
				return
			}
			r.Body = whole{r.Body, from.CloseRead}
			if r.ContentLength == 0 {
				from.CloseRead()
			}
			handler.ServeHTTP(w, r.WithContext(from.ctx))
		}),
		ConnContext:    func(_ context.Context, s net.Conn) context.Context { return s.(*conn).ctx },
		MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headTime, ReadTimeout: requestTime,
		ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelDebug),
	}
	s.SetKeepAlivesEnabled(false) // a stream is one request
	return s
}

// whole is the body of a request, at whose end the stream is not read any more: an
// answer may take for ever, and what a home says meanwhile must not lie there.
type whole struct {
	io.ReadCloser
	read func()
}

func (w whole) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	if err == io.EOF {
		w.read()
	}
	return n, err
}

// refuses returns why a request of another daemon is not looked at, nil if it is.
func (c *Carrier) refuses(from *conn) *openintent.Error {
	err := c.cfg.Admit(from.home)
	if err == nil && from.over != nil {
		err = kinds.Errorf(kinds.Overloaded, "%v: come again when a request of yours has ended", from.over)
	}
	if err == nil {
		return nil
	}
	e, status := kinds.AsError(err), http.StatusForbidden
	if e.Code == kinds.Overloaded {
		status = http.StatusTooManyRequests
	}
	return &openintent.Error{Status: status, Code: string(e.Code), Message: e.Message}
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
	if one.over = c.requests.Take(from, 1); one.over == nil {
		defer c.requests.Give(from, 1)
	}
	c.mu.Lock()
	c.open[one] = true
	c.mu.Unlock()
	c.server.Serve(&once{conn: one}) // has begun with it when it returns
	<-ended.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, one)
}

// openTo and isPetname are those of [openintent.Config].
func (c *Carrier) openTo(home string) bool {
	id, err := identity.ParseID(home)
	if err != nil {
		return false
	}
	p, ok := c.cfg.Trusted(id)
	return ok && c.cfg.OpenTo(p)
}

func (c *Carrier) isPetname(name string) bool {
	return slices.ContainsFunc(c.cfg.Peers(), func(p identity.Peer) bool { return p.Name == name })
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
	over error              // why it is refused: the home has too many open
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
