package daemon

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
)

// localSocket is a unix socket that accepts connections of some users only.
type localSocket struct {
	*net.UnixListener
	acceptState  // of serveLocalSocket
	path         string
	closing      sync.Once
	guests       bool                  // its connections are those of agents, and serve nothing else
	otherUsers   []int                 // uids that may come in beside the owner of the state directory
	inputLimit   *jsonrpc.InputLimit   // what comes in here and is not whole; nil: not bounded in sum
	requestLimit *jsonrpc.RequestLimit // what is asked here; nil: bounded by each connection alone
	unreadRoom   *jsonrpc.UnreadRoom   // of lines that its clients have not read; nil: bounded by each connection alone
}

// openOwnerSocket opens a socket of the state directory, for its owner alone.
func openOwnerSocket(ctx context.Context, path string) (*localSocket, error) {
	l, err := listenSocket(ctx, path)
	if err != nil {
		return nil, err
	}
	return &localSocket{UnixListener: l, path: path}, nil
}

// Close closes the socket and removes its file. Each later call waits until the first is
// through: the daemon that starts next may open its own under the same path.
func (d *localSocket) Close() error {
	err := net.ErrClosed
	d.closing.Do(func() {
		err = d.UnixListener.Close()
		if d.guests {
			os.Remove(d.path)
		}
	})
	return err
}

// Addr returns where programs find the socket.
func (d *localSocket) Addr() net.Addr { return &net.UnixAddr{Name: d.path, Net: "unix"} }

// checkUser returns an error unless the user of a connection may come in. The owner's sockets
// let root in too: it can read the key, and so speaks with the daemon of a system unit.
func (d *localSocket) checkUser(c *net.UnixConn) error {
	uid, err := readCallerUserID(c)
	switch {
	case err != nil:
		return kinds.Errorf(kinds.Internal, "the kernel does not say who connected: %v", err)
	case uid == os.Geteuid() || uid == 0 && !d.guests || slices.Contains(d.otherUsers, uid):
		return nil
	case d.guests:
		return kinds.Errorf(kinds.NotAuthorized, "you are user %d, whom agents.uids in config.yaml does not name: ask whoever runs this daemon", uid)
	}
	return kinds.Errorf(kinds.NotAuthorized, "this daemon belongs to user %d, and you are user %d: run your own", os.Geteuid(), uid)
}

// Accept returns the next connection of a user that may come in. It closes all others.
func (d *localSocket) Accept() (net.Conn, error) {
	for {
		c, err := d.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if d.checkUser(c) == nil {
			return c, nil
		}
		c.Close()
	}
}
