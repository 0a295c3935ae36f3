package daemon

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/openintent"
)

// Every user of this machine can connect to channels.listen. Until a key is shown a
// connection is one of few, and has keylessTime for it from its beginning.
const (
	maxKeyless  = 64
	keylessTime = headerTime
)

// keyListener accepts connections on which a key is still to be shown. Beyond most
// of them the oldest is closed for a new one.
type keyListener struct {
	net.Listener
	most int

	mu      sync.Mutex // guards waiting
	waiting []*keyConn // the oldest first
}

// keyConn is a connection of a keyListener.
type keyConn struct {
	net.Conn
	of   *keyListener
	late *time.Timer // closes it; under of.mu
}

func (l *keyListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &keyConn{Conn: accepted, of: l}
	var oldest *keyConn
	l.mu.Lock()
	c.late = time.AfterFunc(keylessTime, func() { c.Close() })
	if len(l.waiting) >= l.most {
		oldest = l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	l.waiting = append(l.waiting, c)
	l.mu.Unlock()
	if oldest != nil {
		oldest.Close()
	}
	return c, nil
}

// prove takes note of a key.
func (c *keyConn) prove() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.late.Stop()
	if i := slices.Index(c.of.waiting, c); i >= 0 {
		c.of.waiting = slices.Delete(c.of.waiting, i, i+1)
	}
}

func (c *keyConn) Close() error {
	c.prove() // nothing is waited for any more
	return c.Conn.Close()
}

// connKey is under which a request's context has its connection.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// proving is identify that takes note, on the connection, of a key that it knows.
func proving(identify func(*http.Request) (openintent.Caller, error)) func(*http.Request) (openintent.Caller, error) {
	return func(r *http.Request) (openintent.Caller, error) {
		who, err := identify(r)
		if c, ok := r.Context().Value(connKey{}).(*keyConn); ok && err == nil {
			c.prove()
		}
		return who, err
	}
}
