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
	"github.com/acpd/acpd/openintent/api"
)

// This daemon as the host of agents that are at home at others.

const (
	headTime    = 10 * time.Second // for the head of a request
	requestTime = time.Minute      // for all of it
)

type streamConnKey struct{}

// newHTTPServer makes the server of requests that other daemons pass on.
func (g *Gateway) newHTTPServer() *http.Server {
	connOf := func(r *http.Request) *streamConn { return r.Context().Value(streamConnKey{}).(*streamConn) }
	handler := g.API.NewHandler(func(r *http.Request) (openintent.Caller, error) {
		return api.IdentifyRemoteCaller(connOf(r).home.String(), r)
	})
	s := &http.Server{
		// A home says nothing after its request. The server would take that for the home's
		// end, so a request has the context of its stream instead.
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			from := connOf(r)
			if refusal := g.checkRequest(from); refusal != nil {
				refusal.WriteAnswer(w)
				return
			}
			r.Body = requestBody{r.Body, from.CloseRead}
			if r.ContentLength == 0 {
				from.CloseRead()
			}
			handler.ServeHTTP(w, r.WithContext(from.ctx))
		}),
		ConnContext:    func(_ context.Context, s net.Conn) context.Context { return s.(*streamConn).ctx },
		MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headTime, ReadTimeout: requestTime,
		ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
	if g.cfg.Around != nil {
		s.Handler = g.cfg.Around(s.Handler)
	}
	s.SetKeepAlivesEnabled(false) // a stream is one request
	return s
}

// requestBody reads the body of a request, and calls ended at its end. Then the stream is read no
// more, because an answer may take for ever, and what a home says meanwhile must not pile up.
type requestBody struct {
	io.ReadCloser
	ended func()
}

func (w requestBody) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	if err == io.EOF {
		w.ended()
	}
	return n, err
}

// checkRequest returns why the request of another daemon is refused, whatever it asks for; nil if
// it is not.
func (g *Gateway) checkRequest(from *streamConn) *api.Error {
	err := g.cfg.Admit(from.home)
	if err == nil && from.overBudget != nil {
		err = kinds.Errorf(kinds.Overloaded, "%v: come again when a request of yours has ended", from.overBudget)
	}
	if err == nil {
		return nil
	}
	e, status := kinds.AsError(err), http.StatusForbidden
	if e.Code == kinds.Overloaded {
		status = http.StatusTooManyRequests
	}
	return &api.Error{Status: status, Code: string(e.Code), Message: e.OwnWords()}
}

// ServeStream answers the request on a peer's stream, and returns when the stream has ended. When ctx
// ends, so does the request.
func (g *Gateway) ServeStream(ctx context.Context, from identity.ID, s Stream) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	ended, end := context.WithCancel(context.Background())
	one := &streamConn{Stream: s, home: from, end: end}
	one.ctx = context.WithValue(ctx, streamConnKey{}, one)
	if one.overBudget = g.requests.Reserve(from, 1); one.overBudget == nil {
		defer g.requests.Release(from, 1)
	}
	g.mu.Lock()
	g.streams[one] = true
	g.mu.Unlock()
	g.server.Serve(&singleListener{conn: one}) // returns when it has begun to serve the stream
	<-ended.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.streams, one)
}

// isOpenTo reports whether the daemon with that id is trusted and is in channels.open_to.
func (g *Gateway) isOpenTo(home string) bool {
	id, err := identity.ParseID(home)
	if err != nil {
		return false
	}
	p, ok := g.cfg.Trusted(id)
	return ok && g.cfg.OpenTo(p)
}

// isPetname reports whether a trusted peer has that petname.
func (g *Gateway) isPetname(name string) bool {
	return slices.ContainsFunc(g.cfg.Peers(), func(p identity.Peer) bool { return p.Name == name })
}

// CancelStreamsUnless cancels the streams of peers that may not have them any more.
func (g *Gateway) CancelStreamsUnless(may func(identity.ID) bool) {
	g.mu.Lock()
	all := slices.Collect(maps.Keys(g.streams))
	g.mu.Unlock()
	for _, s := range all {
		if !may(s.home) {
			s.Cancel()
		}
	}
}

// singleListener returns one connection to the server, and no other.
type singleListener struct{ conn *streamConn }

func (l *singleListener) Accept() (net.Conn, error) {
	c := l.conn
	if c == nil {
		return nil, net.ErrClosed
	}
	l.conn = nil
	return c, nil
}

func (l *singleListener) Close() error   { return nil }
func (l *singleListener) Addr() net.Addr { return new(net.UnixAddr) }

// streamConn is a stream as a connection.
type streamConn struct {
	Stream
	home       identity.ID
	overBudget error              // why the request is refused: the home has too many; else nil
	ctx        context.Context    // of its request
	end        context.CancelFunc // called when the stream has ended
}

func (c *streamConn) Write(b []byte) (int, error) {
	n, err := WriteInParts(c.Stream, b)
	if err != nil {
		c.Cancel() // closing would wait for the home to read what there is
	}
	return n, err
}

func (c *streamConn) Close() error {
	defer c.end()
	return c.Stream.Close()
}

func (c *streamConn) LocalAddr() net.Addr  { return new(net.UnixAddr) }
func (c *streamConn) RemoteAddr() net.Addr { return &net.UnixAddr{Name: c.home.String()} }
func (c *streamConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
