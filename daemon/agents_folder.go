package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
)

// maxInputBytes bounds the bytes of lines, or of bodies, that have begun to come in by a
// socket of the agents' folder and are not whole, beyond the first 64 KiB of each.
const maxInputBytes = 64 << 20

// Requests of agents on acp.sock there that are not answered yet, and the bytes of their
// lines, beyond what each connection has of its own.
const (
	maxRequests     = 8_192
	maxRequestBytes = 64 << 20
)

// localSocket is a unix socket that lets in some users.
type localSocket struct {
	*net.UnixListener
	path         string
	guests       bool                  // who comes in here is an agent, and no more
	otherUsers   []int                 // users beside the one whom the state directory belongs to
	inputLimit   *jsonrpc.InputLimit   // what comes in here and is not whole; nil: not bounded in sum
	requestLimit *jsonrpc.RequestLimit // what is asked here; nil: bounded by each connection alone
}

// openOwnerSocket opens a socket of the state directory, for its owner alone.
func openOwnerSocket(ctx context.Context, path string) (*localSocket, error) {
	l, err := listenSocket(ctx, path)
	if err != nil {
		return nil, err
	}
	return &localSocket{UnixListener: l, path: path}, nil
}

// openAgentsFolder makes the agents' folder, or takes it as it is: who has mounted it sees
// the sockets that come and go in it. The folder and its sockets are their owner's
// alone, as everything here is. Where other users may come too, they can be opened by
// everybody who gets to the folder: on this host nobody does, since the state directory
// is 0700, only where the folder is mounted; and each connection is judged by its user.
func (h home) openAgentsFolder(others []int) error {
	dir := h.agents()
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("agents' folder: %w", err)
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("agents' folder: %s is no folder: move it away", dir)
	}
	mode := fs.FileMode(0o700)
	if len(others) > 0 {
		mode = 0o711
	}
	if err := os.Chmod(dir, mode); err != nil {
		return fmt.Errorf("agents' folder: %w", err)
	}
	return nil
}

// openGuestSocket opens a socket in the agents' folder. It is made beside the folder and
// then moved there, in place of whatever has its name: an agent that can write there
// neither keeps the daemon from starting nor has it change the mode of another file.
func (h home) openGuestSocket(ctx context.Context, name string, others []int) (*localSocket, error) {
	made, path := filepath.Join(string(h), "."+name), filepath.Join(h.agents(), name)
	l, err := listenSocket(ctx, made)
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	d := &localSocket{UnixListener: l, path: path, guests: true, otherUsers: others, inputLimit: jsonrpc.NewInputLimit(maxInputBytes), requestLimit: jsonrpc.NewRequestLimit(maxRequests, maxRequestBytes)}
	if err := d.moveIntoFolder(made); err != nil {
		l.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	return d, nil
}

func (d *localSocket) moveIntoFolder(made string) error {
	if len(d.otherUsers) > 0 {
		if err := os.Chmod(made, 0o666); err != nil {
			return err
		}
	}
	if info, err := os.Lstat(d.path); err == nil && info.IsDir() {
		folder, err := os.OpenRoot(filepath.Dir(d.path))
		if err != nil {
			return err
		}
		defer folder.Close()
		if err := folder.RemoveAll(filepath.Base(d.path)); err != nil {
			return err
		}
	}
	return os.Rename(made, d.path)
}

// Close closes the socket and removes its file.
func (d *localSocket) Close() error {
	err := d.UnixListener.Close()
	if err == nil && d.guests {
		os.Remove(d.path)
	}
	return err
}

// checkUser lets in the users that may come.
func (d *localSocket) checkUser(c *net.UnixConn) error {
	uid, err := peerUID(c)
	switch {
	case err != nil:
		return kinds.Errorf(kinds.Internal, "the kernel does not say who connected: %v", err)
	case uid == os.Geteuid() || slices.Contains(d.otherUsers, uid):
		return nil
	case d.guests:
		return kinds.Errorf(kinds.NotAuthorized, "you are user %d, whom agents.uids in config.yaml does not name: ask whoever runs this daemon", uid)
	}
	return kinds.Errorf(kinds.NotAuthorized, "this daemon belongs to user %d, and you are user %d: run your own", os.Geteuid(), uid)
}

// Accept accepts connections of users that may come, and closes others.
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

// uncheckedSocket is a door whose connections are judged when they are there, so that who is
// not let in can be told why.
type uncheckedSocket struct{ *localSocket }

func (u uncheckedSocket) Accept() (net.Conn, error) { return u.AcceptUnix() }

// address is what reads like host:port.
var address = regexp.MustCompile(`(\[[0-9A-Fa-f:.%\w-]+\]|[\w.%-]+):\d{1,5}\b`)

// hideAddrs takes addresses out of an error of this daemon: an agent knows its peers
// by name.
func hideAddrs(err error) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.From != "" || !address.MatchString(e.Message) {
		return err
	}
	told := *e
	told.Message = address.ReplaceAllString(e.Message, "its address")
	return &told
}
