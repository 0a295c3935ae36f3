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

// door is a unix socket that lets in some users.
type door struct {
	*net.UnixListener
	path         string
	guests       bool                  // who comes in here is an agent, and no more
	others       []int                 // users beside the one whom the state directory belongs to
	inputLimit   *jsonrpc.InputLimit   // what comes in here and is not whole; nil: not bounded in sum
	requestLimit *jsonrpc.RequestLimit // what is asked here; nil: bounded by each connection alone
}

// openDoor opens a socket of the state directory, for its owner alone.
func openDoor(ctx context.Context, path string) (*door, error) {
	l, err := listenSocket(ctx, path)
	if err != nil {
		return nil, err
	}
	return &door{UnixListener: l, path: path}, nil
}

// openFolder makes the agents' folder, or takes it as it is: who has mounted it sees
// the sockets that come and go in it. The folder and its sockets are their owner's
// alone, as everything here is. Where other users may come too, they can be opened by
// everybody who gets to the folder: on this host nobody does, since the state directory
// is 0700, only where the folder is mounted; and each connection is judged by its user.
func (h home) openFolder(others []int) error {
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

// openGuestDoor opens a socket in the agents' folder. It is made beside the folder and
// then moved there, in place of whatever has its name: an agent that can write there
// neither keeps the daemon from starting nor has it change the mode of another file.
func (h home) openGuestDoor(ctx context.Context, name string, others []int) (*door, error) {
	made, path := filepath.Join(string(h), "."+name), filepath.Join(h.agents(), name)
	l, err := listenSocket(ctx, made)
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	d := &door{UnixListener: l, path: path, guests: true, others: others, inputLimit: jsonrpc.NewInputLimit(maxInputBytes), requestLimit: jsonrpc.NewRequestLimit(maxRequests, maxRequestBytes)}
	if err := d.moveIn(made); err != nil {
		l.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	return d, nil
}

func (d *door) moveIn(made string) error {
	if len(d.others) > 0 {
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
func (d *door) Close() error {
	err := d.UnixListener.Close()
	if err == nil && d.guests {
		os.Remove(d.path)
	}
	return err
}

// admit lets in the users that may come.
func (d *door) admit(c *net.UnixConn) error {
	uid, err := peerUID(c)
	switch {
	case err != nil:
		return kinds.Errorf(kinds.Internal, "the kernel does not say who connected: %v", err)
	case uid == os.Geteuid() || slices.Contains(d.others, uid):
		return nil
	case d.guests:
		return kinds.Errorf(kinds.NotAuthorized, "you are user %d, whom agents.uids in config.yaml does not name: ask whoever runs this daemon", uid)
	}
	return kinds.Errorf(kinds.NotAuthorized, "this daemon belongs to user %d, and you are user %d: run your own", os.Geteuid(), uid)
}

// Accept accepts connections of users that may come, and closes others.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if d.admit(c) == nil {
			return c, nil
		}
		c.Close()
	}
}

// unjudged is a door whose connections are judged when they are there, so that who is
// not let in can be told why.
type unjudged struct{ *door }

func (u unjudged) Accept() (net.Conn, error) { return u.AcceptUnix() }

// address is what reads like host:port.
var address = regexp.MustCompile(`(\[[0-9A-Fa-f:.%\w-]+\]|[\w.%-]+):\d{1,5}\b`)

// withoutAddrs takes addresses out of an error of this daemon: an agent knows its peers
// by name.
func withoutAddrs(err error) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.From != "" || !address.MatchString(e.Message) {
		return err
	}
	told := *e
	told.Message = address.ReplaceAllString(e.Message, "its address")
	return &told
}
