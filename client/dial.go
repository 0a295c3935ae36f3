package client

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/kinds"
)

// The names of the sockets in a daemon's home: that of the local API, and that of
// channels, which speaks HTTP.
const (
	SocketName     = "acp.sock"
	HTTPSocketName = "http.sock"
)

// AgentFolder is the folder in a daemon's home that has sockets of the same names for
// agents: they can do there what agents do, and nothing that administers the daemon.
const AgentFolder = "agent"

const (
	homeFolder = ".acp"         // a daemon's home in that of its user
	keyFile    = "identity.key" // in every daemon's home
)

// Home returns the state directory of the daemon to use if none is named: $ACP_HOME,
// else .acp in the user's home directory.
func Home() (string, error) {
	if dir := os.Getenv("ACP_HOME"); dir != "" {
		return shellpath.ExpandTilde(dir)
	}
	dir, err := findUsualHome()
	if err != nil {
		return "", ownwords.Errorf("find the state directory: %w: name it with ACP_HOME", err)
	}
	return dir, nil
}

// findUsualHome returns .acp in the user's home directory.
func findUsualHome() (string, error) {
	dir, err := shellpath.FindUserHome()
	return filepath.Join(dir, homeFolder), err
}

// AgentSocket returns the socket that $ACP_SOCKET names, and whether the variable is set. If
// it is, nothing looks for a daemon's home. A variable that is empty, or whose path does not end
// in acp.sock, is an error, and so is one that names the owner's socket: an agent must not get
// everything by it.
func AgentSocket() (path string, set bool, err error) {
	if path, set = os.LookupEnv("ACP_SOCKET"); !set {
		return "", false, nil
	}
	if path, err = shellpath.ExpandTilde(path); err != nil {
		return "", true, ownwords.Errorf("ACP_SOCKET: %w", err)
	}
	switch home, isOwners := findHomeOfSocket(path); {
	case path == "":
		err = ownwords.New("ACP_SOCKET is empty: set it to the path of acp.sock in the agents' folder")
	case filepath.Base(path) != SocketName:
		err = ownwords.Errorf("ACP_SOCKET is %s: set it to the path of %s in the agents' folder", path, SocketName)
	case isOwners:
		err = ownwords.Errorf("ACP_SOCKET names the owner's socket: agents use %s", filepath.Join(home, AgentFolder, SocketName))
	}
	return path, true, err
}

// findHomeOfSocket returns the state directory that contains a socket or the target of its symbolic
// link, and whether there is one.
func findHomeOfSocket(path string) (dir string, found bool) {
	paths := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		paths = append(paths, real)
	}
	for _, path := range paths {
		for _, name := range []string{AgentFolder, keyFile} {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), name)); err == nil {
				return filepath.Dir(path), true
			}
		}
	}
	return "", false
}

// findSocketPath returns the file path of the socket of that name: in the folder of $ACP_SOCKET, or in
// [Home], that of the local API in the agents' folder there. fromEnv reports whether ACP_SOCKET is set.
func findSocketPath(name string) (path string, fromEnv bool, err error) {
	path, fromEnv, err = AgentSocket()
	if fromEnv || err != nil {
		if name != SocketName {
			path = filepath.Join(filepath.Dir(path), name)
		}
		return path, fromEnv, err
	}
	home, err := Home()
	if name == SocketName {
		home = filepath.Join(home, AgentFolder)
	}
	return filepath.Join(home, name), false, err
}

// DialHTTP opens a connection to the socket of channels in a daemon's home. If home is "",
// it takes the socket in the folder of $ACP_SOCKET, or in [Home] if that variable is not set. The error
// is daemon_unavailable, with the reason and the remedy, or that of ctx.
func DialHTTP(ctx context.Context, home string) (net.Conn, error) {
	path := ""
	if home != "" {
		path = filepath.Join(home, HTTPSocketName)
	}
	return dialSocket(ctx, path, HTTPSocketName)
}

// dialSocket opens a connection to the socket at path. If path is "", it takes the socket of that
// name in its usual place. The error is daemon_unavailable, with the reason and the remedy, or
// that of ctx.
func dialSocket(ctx context.Context, path, name string) (net.Conn, error) {
	home, fromEnv := filepath.Dir(path), false
	if path == "" {
		var err error
		if path, fromEnv, err = findSocketPath(name); err != nil {
			return nil, newUnavailableError(false, "%v", err)
		}
		if home = filepath.Dir(path); name == SocketName && !fromEnv {
			home = filepath.Dir(home)
		}
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if fromEnv && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)) {
		return nil, newUnavailableError(true, "no daemon at %s, which ACP_SOCKET names: try again when whoever it belongs to has started it", path)
	}
	return nil, newSocketError(err, path, home)
}

// newSocketError returns an error that says why the socket at path, of the daemon with that home, cannot be
// reached, and what to do.
func newSocketError(err error, path, home string) error {
	usual, usualErr := findUsualHome()
	if above := filepath.Dir(home); filepath.Base(home) == AgentFolder && isUnusedHome(home, usual) && !isUnusedHome(above, usual) {
		home = above
	}
	start := "acpctl up --home " + shellpath.Quote(home)
	if usualErr == nil && isSameFolder(home, usual) && os.Getenv("ACP_HOME") == "" {
		start = "acpctl up"
	}
	switch {
	case (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && usualErr == nil && isUnusedHome(home, usual):
		return newUnavailableError(true, "no daemon at %s, nor the state of one in that directory: name the one that acpd was started with, usually %s, or start one with: %s", path, usual, start)
	case errors.Is(err, fs.ErrNotExist):
		return newUnavailableError(true, "no daemon at %s: start one with: %s", path, start)
	case errors.Is(err, syscall.ECONNREFUSED):
		return newUnavailableError(true, "no daemon at %s, where one was killed: start one with: %s", path, start)
	case errors.Is(err, syscall.EAGAIN):
		return newUnavailableError(true, "the daemon at %s takes no connections, as many as can wait for it: if it stays so, look at its log and start it again", path)
	case errors.Is(err, syscall.EPERM) && findSandbox() != "":
		return newUnavailableError(false, "%s runs this command in a sandbox that forbids the socket %s: a daemon may well be running; %s", findSandbox(), path, sandboxRemedies[findSandbox()])
	case errors.Is(err, fs.ErrPermission):
		return newUnavailableError(false, "a sandbox or file permission forbids the socket %s (%v): a daemon may well be running; "+
			"allow this program to connect to the socket", path, trimNetPreamble(err))
	case errors.Is(err, syscall.EINVAL):
		return newUnavailableError(false, "the socket's path %s has %d bytes, more than the system allows: choose a shorter home with --home or ACP_HOME", path, len(path))
	}
	return newUnavailableError(true, "connect to the daemon at %s: %v", path, trimNetPreamble(err))
}

// isUnusedHome reports whether no daemon ever had dir as its state directory. Of the usual home
// it always reports false.
func isUnusedHome(dir, usual string) bool {
	if isSameFolder(dir, usual) {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, keyFile))
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// isSameFolder reports whether dir is the absolute path usual, as text.
func isSameFolder(dir, usual string) bool {
	whole, err := filepath.Abs(dir)
	return err == nil && whole == filepath.Clean(usual)
}

// newSilenceError returns the error of a call during which the daemon has not answered for
// waited.
func (c *Client) newSilenceError(method string, waited time.Duration) error {
	path := c.Socket
	if path == "" {
		path, _, _ = findSocketPath(SocketName)
	}
	return newUnavailableError(true, "%s: connected to %s, and the daemon has not answered for %s: it may be stopped, without descriptors or waiting for its disk; look at its log, then %s",
		method, path, waited.Round(min(time.Millisecond, waited)), adviseRepeat(method)).WithDelivered(kinds.DeliveredUnknown)
}

// adviseRepeat says how to repeat a call whose effect is unknown: with its id, if the method's
// repeats are known by it.
func adviseRepeat(method string) string {
	if kinds.Has(method, kinds.Offered) { // a kind is sent by the method of its name
		return "repeat it with the same id"
	}
	return "repeat this"
}

// sandboxRemedies says what to do in the sandbox of an agent program. The tools of its MCP
// server run outside of the sandbox.
var sandboxRemedies = map[string]string{
	"Codex": "use the tools acp_peers, acp_query and so on (acpctl setup codex connects them), or run the command in a terminal of your own; " +
		"network_access = true in [sandbox_workspace_write] of config.toml opens the sandbox to all sockets",
	"Claude Code": "use the tools acp_peers, acp_query and so on (acpctl setup claude connects them), or run the command in a terminal of your own; " +
		"\"acpctl *\" in sandbox.excludedCommands of settings.json lets acpctl run outside of the sandbox",
}

// findSandbox returns the agent program whose variable shows that this process is in its
// sandbox, or "".
func findSandbox() string {
	switch {
	case os.Getenv("CODEX_SANDBOX_NETWORK_DISABLED") == "1":
		return "Codex"
	case os.Getenv("SANDBOX_RUNTIME") == "1":
		return "Claude Code"
	}
	return ""
}

// trimNetPreamble returns err without the net package's preamble.
func trimNetPreamble(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

func newUnavailableError(retryable bool, format string, args ...any) *kinds.Error {
	e := kinds.Errorf(kinds.DaemonUnavailable, format, args...).WithDelivered(kinds.DeliveredNo)
	e.Retryable = retryable
	return e
}
