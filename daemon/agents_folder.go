package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/ownwords"
)

// maxInputBytes bounds, per socket of the agents' folder, the bytes of lines or bodies that
// have begun to come in and are not whole. The first 64 KiB of each do not count.
const maxInputBytes = 64 << 20

// Requests of agents on acp.sock there that are not answered yet, and the bytes of their
// lines, beyond what each connection has of its own.
const (
	maxRequests     = 8_192
	maxRequestBytes = 64 << 20
)

// maxUnreadBytes bounds the lines that agents on acp.sock there have not read, in bytes, beyond 64 KiB
// of each connection. Lines that find nothing waiting have as much again. One connection has half of that at most.
const maxUnreadBytes = 64 << 20

// openAgentsFolder makes the agents' folder, or takes it as it is: programs that have
// mounted it then see its sockets come and go. The folder and its sockets belong to their
// owner alone.
//
// If other users are configured, everybody who gets to the folder can open the sockets. On
// this host nobody does, because the state directory is 0700; only programs for which the
// folder is mounted do. The daemon checks the user of each connection.
func (h home) openAgentsFolder(others []int) error {
	dir := h.filePath(client.AgentFolder)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return ownwords.Errorf("agents' folder: %w", err)
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return ownwords.Errorf("agents' folder: %s is no folder: move it away", dir)
	}
	mode := fs.FileMode(0o700)
	if len(others) > 0 {
		mode = 0o711
	}
	if err := os.Chmod(dir, mode); err != nil {
		return ownwords.Errorf("agents' folder: %w", err)
	}
	return nil
}

// openGuestSocket opens a socket in the agents' folder. It makes the socket beside the
// folder and then moves it there, in place of anything that has its name. So an agent that
// can write there cannot keep the daemon from starting, or have it change the mode of
// another file.
func (h home) openGuestSocket(ctx context.Context, name string, others []int) (*localSocket, error) {
	made, path := h.filePath("."+name), filepath.Join(h.filePath(client.AgentFolder), name)
	l, err := listenSocket(ctx, made)
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	d := &localSocket{UnixListener: l, path: path, guests: true, otherUsers: others, inputLimit: jsonrpc.NewInputLimit(maxInputBytes), requestLimit: jsonrpc.NewRequestLimit(maxRequests, maxRequestBytes), unreadRoom: jsonrpc.NewUnreadRoom(maxUnreadBytes)}
	if err := d.moveIntoFolder(made); err != nil {
		l.Close()
		return nil, ownwords.Errorf("socket: %w", err)
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
