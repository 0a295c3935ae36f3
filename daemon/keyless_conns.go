package daemon

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/acpd/acpd/openintent"
)

// Every user of this machine can connect to channels.listen. A connection has keylessTime
// from its beginning to show a key, and only maxKeylessConns may be without one.
const (
	maxKeylessConns = 64
	keylessTime     = headerTime
)

// keyListener accepts connections on which a key is still to be shown. If maxWaiting of
// them wait for a key, the oldest is closed for a new one.
type keyListener struct {
	net.Listener
	maxWaiting int
	waiting    connList[*keyConn]
}

// keyConn is a connection of a keyListener.
type keyConn struct {
	net.Conn
	of   *keyListener
	late *time.Timer // closes the connection
}

func (l *keyListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &keyConn{Conn: accepted, of: l}
	c.late = time.AfterFunc(keylessTime, func() { c.Close() })
	l.waiting.addOrReplaceOldest(c, l.maxWaiting, func(*keyConn) bool { return true })
	return c, nil
}

// exemptFromTimeout lets the connection stay: its client has shown a key, or it is closed.
func (c *keyConn) exemptFromTimeout() {
	c.of.waiting.remove(c)
	c.late.Stop()
}

func (c *keyConn) Close() error {
	c.exemptFromTimeout()
	return c.Conn.Close()
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

func addConnToContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// exemptKeyedConns returns identify, but a connection on which it finds a known key stays.
func exemptKeyedConns(identify func(*http.Request) (openintent.Caller, error)) func(*http.Request) (openintent.Caller, error) {
	return func(r *http.Request) (openintent.Caller, error) {
		who, err := identify(r)
		if c, ok := r.Context().Value(connKey{}).(*keyConn); ok && err == nil {
			c.exemptFromTimeout()
		}
		return who, err
	}
}
