package web

import (
	"io"
	"log"
	"net"
	"sync"
)

// quietLog drops what net/http has to say of clients that speak no HTTP.
var quietLog = log.New(io.Discard, "", 0)

// callerCheck is what the system says of who is at the other end of a loopback connection.
type callerCheck int

const (
	callerUnknown callerCheck = iota // this system does not say
	callerOwner                      // a program of this user, or of root, who can read everything anyway
	callerOther
)

// guardedListener accepts connections of this user alone, where the system says whose they are, and
// no more than maxConns.
type guardedListener struct {
	net.Listener
	findCaller func(net.Conn) callerCheck
	places     chan struct{}
}

func newGuardedListener(l net.Listener) *guardedListener {
	return &guardedListener{Listener: l, findCaller: newCallerFinder(l), places: make(chan struct{}, maxConns)}
}

// Accept waits for the next connection that may speak, and closes others.
func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.findCaller(c) == callerOther {
			c.Close()
			continue
		}
		select {
		case l.places <- struct{}{}:
			return &guardedConn{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
		default:
			c.Close()
		}
	}
}

type guardedConn struct {
	net.Conn
	leave func() // gives the connection's place back
}

func (c *guardedConn) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}
