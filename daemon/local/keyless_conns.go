package local

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Every user of this machine can connect to a listener on loopback TCP. A connection has keylessTime
// from its beginning to show a key, and only MaxKeylessConns may be without one.
const (
	MaxKeylessConns = 64
	keylessTime     = 10 * time.Second
)

// KeyListener accepts connections on which a key is still to be shown. If maxWaiting of
// them wait for a key, the oldest is closed for a new one.
type KeyListener struct {
	net.Listener
	maxWaiting int
	waiting    connList[*keyConn]
}

// NewKeyListener returns a listener that accepts from l, which has at most most connections. Some of
// these places are always left to clients that have a key.
func NewKeyListener(l net.Listener, most int) *KeyListener {
	return &KeyListener{Listener: l, maxWaiting: min(MaxKeylessConns, max(most/2, 1))}
}

// keyConn is a connection of a KeyListener.
type keyConn struct {
	net.Conn
	of   *KeyListener
	late *time.Timer // closes the connection
}

func (l *KeyListener) Accept() (net.Conn, error) {
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

// AddConnToContext lets [ExemptKeyedConns] find the connection of a request. It is an [http.Server]'s
// ConnContext.
func AddConnToContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// ExemptKeyedConns returns identify, but a connection on which it finds a known key stays.
func ExemptKeyedConns[C any](identify func(*http.Request) (C, error)) func(*http.Request) (C, error) {
	return func(r *http.Request) (C, error) {
		who, err := identify(r)
		if c, ok := r.Context().Value(connKey{}).(*keyConn); ok && err == nil {
			c.exemptFromTimeout()
		}
		return who, err
	}
}
