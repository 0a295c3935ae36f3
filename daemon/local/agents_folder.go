package local

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

// MaxInputBytes bounds, per socket of the agents' folder, the bytes of lines or bodies that
// have begun to come in and are not whole, beyond the first 64 KiB of each.
const MaxInputBytes = 64 << 20

// Requests of agents on acp.sock there that are not answered yet, and the bytes of their
// lines, beyond what each connection has of its own.
const (
	MaxRequests     = 8_192
	MaxRequestBytes = 64 << 20
)

// MaxUnreadBytes bounds the lines that agents on acp.sock there have not read, in bytes, beyond 64 KiB
// of each connection. Lines that find nothing waiting have as much again. One connection has half of that at most.
const MaxUnreadBytes = 64 << 20

// OpenAgentsFolder makes the agents' folder, or takes it as it is: programs that have
// mounted it then see its sockets come and go. Only the owner of the folder and its sockets has access to
// them, unless other users are configured.
//
// If other users are configured, everybody who gets to the folder can open the sockets. On
// this host nobody does, because the state directory is 0700; only programs for which the
// folder is mounted do. The daemon checks the user of each connection.
func OpenAgentsFolder(home string, others []int) error {
	dir := filepath.Join(home, client.AgentFolder)
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

// OpenGuestSocket opens a socket in the agents' folder. It makes the socket outside the
// folder and then moves it there, replacing anything that has its name. So an agent that
// can write there cannot keep the daemon from starting, or make it change the mode of
// another file.
func OpenGuestSocket(ctx context.Context, home, name string, others []int) (*Socket, error) {
	made, path := filepath.Join(home, "."+name), filepath.Join(home, client.AgentFolder, name)
	l, err := listenSocket(ctx, made)
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	s := &Socket{UnixListener: l, path: path, guests: true, otherUsers: others, InputLimit: jsonrpc.NewInputLimit(MaxInputBytes), RequestLimit: jsonrpc.NewRequestLimit(MaxRequests, MaxRequestBytes), UnreadRoom: jsonrpc.NewUnreadRoom(MaxUnreadBytes)}
	if err := s.moveIntoFolder(made); err != nil {
		l.Close()
		return nil, ownwords.Errorf("socket: %w", err)
	}
	return s, nil
}

func (s *Socket) moveIntoFolder(made string) error {
	if len(s.otherUsers) > 0 {
		if err := os.Chmod(made, 0o666); err != nil {
			return err
		}
	}
	if info, err := os.Lstat(s.path); err == nil && info.IsDir() {
		folder, err := os.OpenRoot(filepath.Dir(s.path))
		if err != nil {
			return err
		}
		defer folder.Close()
		if err := folder.RemoveAll(filepath.Base(s.path)); err != nil {
			return err
		}
	}
	return os.Rename(made, s.path)
}
