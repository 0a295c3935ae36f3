package local

import "net"

// WrapConns returns a listener that accepts from l, and wraps each connection.
func WrapConns(l net.Listener, wrap func(net.Conn) net.Conn) net.Listener {
	return wrappingListener{l, wrap}
}

type wrappingListener struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (l wrappingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(c), nil
}

// quickAckConn acknowledges at once what it reads: older HTTP clients write a request in two
// parts and wait for that in between, 40 ms.
type quickAckConn struct{ *net.TCPConn }

// NewQuickAckConn returns c, a TCP connection, but what is read from it is acknowledged at once.
func NewQuickAckConn(c net.Conn) net.Conn { return quickAckConn{c.(*net.TCPConn)} }

func (c quickAckConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	enableQuickAck(c.TCPConn) // the kernel forgets it, so each time
	return n, err
}
