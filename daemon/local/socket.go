package local

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// Socket is a unix socket that accepts connections of some users only.
type Socket struct {
	*net.UnixListener
	acceptState  // of the loop that accepts connections
	path         string
	closing      sync.Once
	guests       bool                  // its connections are those of agents, and serve nothing else
	otherUsers   []int                 // uids that may connect, in addition to the owner of the state directory
	InputLimit   *jsonrpc.InputLimit   // bounds what has come in and is not whole; nil if only each connection does
	RequestLimit *jsonrpc.RequestLimit // bounds the requests that are not answered; nil if only each connection does
	UnreadRoom   *jsonrpc.UnreadRoom   // bounds the lines that clients have not read; nil if only each connection does
}

// OpenOwnerSocket opens a unix socket that only the owner may use.
func OpenOwnerSocket(ctx context.Context, path string) (*Socket, error) {
	l, err := listenSocket(ctx, path)
	if err != nil {
		return nil, err
	}
	return &Socket{UnixListener: l, path: path}, nil
}

// Close closes the socket and removes its file. Each later call waits until the first is
// through: the daemon that starts next may open its own under the same path.
func (s *Socket) Close() error {
	err := net.ErrClosed
	s.closing.Do(func() {
		err = s.UnixListener.Close()
		if s.guests {
			os.Remove(s.path)
		}
	})
	return err
}

// ListFaults returns an error for each reason why programs cannot connect just now.
func (s *Socket) ListFaults() (all []error) {
	for _, err := range []error{s.checkFile(), s.lack()} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// checkFile returns an error unless programs find the socket under its path.
func (s *Socket) checkFile() error {
	info, err := os.Lstat(s.path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return ownwords.Errorf("%s is not there any more, so no program reaches acpd: start acpd again", s.path)
	}
	return nil
}

// AwaitRound blocks until the loop that accepts connections has come round, or returns ctx's error.
func (s *Socket) AwaitRound(ctx context.Context) error {
	return s.awaitRound(ctx, s.UnixListener)
}

// Addr returns where programs find the socket.
func (s *Socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// checkUser returns an error unless the user of a connection may come in. The owner's sockets
// let root in too: it can read the key, and so speaks with the daemon of a system unit.
func (s *Socket) checkUser(c *net.UnixConn) error {
	uid, err := readCallerUserID(c)
	switch {
	case err != nil:
		return kinds.Errorf(kinds.Internal, "the kernel does not say who connected: %v", err)
	case uid == os.Geteuid() || uid == 0 && !s.guests || slices.Contains(s.otherUsers, uid):
		return nil
	case s.guests:
		return kinds.Errorf(kinds.NotAuthorized, "you are user %d, whom agents.uids in config.yaml does not name: ask whoever runs this daemon", uid)
	}
	return kinds.Errorf(kinds.NotAuthorized, "this daemon belongs to user %d, and you are user %d: run your own", os.Geteuid(), uid)
}

// Accept returns the next connection of a user that may come in. It closes all others.
func (s *Socket) Accept() (net.Conn, error) {
	for {
		c, err := s.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if s.checkUser(c) == nil {
			return c, nil
		}
		c.Close()
	}
}

// listenSocket opens a unix socket that has mode 0600 from the beginning. The caller holds
// the lock of the state directory, so a file that is there is one of a killed daemon.
func listenSocket(ctx context.Context, path string) (*net.UnixListener, error) {
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{Control: makeSocketPrivate}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, ownwords.Errorf("socket: %w", err)
	}
	return l.(*net.UnixListener), nil
}

// removeStaleSocket removes the socket that a killed daemon left. The caller holds the lock,
// so nobody listens on it. Anything but a socket stays, and is an error.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return ownwords.Errorf("socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return ownwords.Errorf("socket: %s is there and is no socket: move it away", path)
	}
	if err := os.Remove(path); err != nil {
		return ownwords.Errorf("socket: %w", err)
	}
	return nil
}
