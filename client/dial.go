package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/acpd/acpd/kinds"
)

// The names of the sockets in a daemon's home: that of the local API, and that of
// channels, which speaks HTTP.
const (
	SocketName     = "acp.sock"
	HTTPSocketName = "http.sock"
)

// Home returns the state directory of the daemon that is meant where none is
// named: $ACP_HOME, else .acp in the user's home directory.
func Home() (string, error) {
	if dir := os.Getenv("ACP_HOME"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the state directory: %w: name it with ACP_HOME", err)
	}
	return filepath.Join(dir, ".acp"), nil
}

// DialHTTP opens a connection to the socket of channels in a daemon's home, "" for
// that of [Home]. The error is daemon_unavailable, with the reason and the remedy.
func DialHTTP(ctx context.Context, home string) (net.Conn, error) {
	path := ""
	if home != "" {
		path = filepath.Join(home, HTTPSocketName)
	}
	return dial(ctx, path, HTTPSocketName)
}

// dial opens a connection to the socket, the one of that name in [Home] for "". The
// error is daemon_unavailable, with the reason and the remedy.
func dial(ctx context.Context, path, name string) (net.Conn, error) {
	if path == "" {
		home, err := Home()
		if err != nil {
			return nil, unavailable(false, "%v", err)
		}
		path = filepath.Join(home, name)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, refused(err, path)
}

// refused says why the socket cannot be had and what to do.
func refused(err error, path string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return unavailable(true, "no daemon at %s: start one with: acpd --home %s", path, filepath.Dir(path))
	case errors.Is(err, fs.ErrPermission):
		return unavailable(false, "a sandbox or file permission forbids the socket %s (%v): a daemon may well be running; "+
			"allow this program to connect to the socket", path, reason(err))
	case errors.Is(err, syscall.EINVAL):
		return unavailable(false, "the socket's path %s has %d bytes, more than the system allows: choose a shorter home with --home or ACP_HOME", path, len(path))
	}
	return unavailable(true, "connect to the daemon at %s: %v", path, reason(err))
}

// reason is the error without the net package's preamble.
func reason(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err
	}
	return err
}

func unavailable(retryable bool, format string, args ...any) error {
	e := kinds.Errorf(kinds.DaemonUnavailable, format, args...).WithDelivered(kinds.DeliveredNo)
	e.Retryable = retryable
	return e
}
