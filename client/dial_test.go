package client

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
)

func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	user := t.TempDir()
	t.Setenv("HOME", user)
	t.Setenv("ACP_HOME", "")
	usual := filepath.Join(user, ".acp")
	empty, file := t.TempDir(), filepath.Join(dir, "identity.key")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	never := func(dir string) string {
		return "no daemon at " + dir + "/acp.sock, nor the state of one in that directory: name the one that acpd was started with, usually " + usual + ", or start one with: acpctl up --home " + dir
	}
	for path, words := range map[string]string{
		filepath.Join(dir, "acp.sock"):                  "no daemon at " + dir + "/acp.sock: start one with: acpctl up --home " + dir,
		filepath.Join(usual, AgentFolder, "acp.sock"):   "no daemon at " + usual + "/agent/acp.sock: start one with: acpctl up",
		filepath.Join(dir, AgentFolder, "acp.sock"):     "no daemon at " + dir + "/agent/acp.sock: start one with: acpctl up --home " + dir,
		filepath.Join(usual, "acp.sock"):                "no daemon at " + usual + "/acp.sock: start one with: acpctl up",
		filepath.Join(empty, "acp.sock"):                never(empty),
		filepath.Join(dir, "no", "such", "acp.sock"):    never(filepath.Join(dir, "no", "such")),
		filepath.Join(file, "acp.sock"):                 never(file),
		stale:                                           "no daemon at " + stale + ", where one was killed",
		filepath.Join(dir, strings.Repeat("x", 120)):    "choose a shorter home",
		filepath.Join(empty, strings.Repeat("x", 120)):  "choose a shorter home",
		filepath.Join(empty, "no", "such", "directory"): "no daemon at",
		filepath.Join(empty, "two words", "acp.sock"):   "start one with: acpctl up --home '" + filepath.Join(empty, "two words") + "'",
	} {
		c := Client{Socket: path}
		_, err := c.Whoami(t.Context())
		e := wantUnavailable(t, err, words)
		if e.Delivered() != kinds.DeliveredNo {
			t.Errorf("%s: delivered %q", path, e.Delivered())
		}
		if strings.Contains(e.Message, "--home "+usual) {
			t.Errorf("%s names the usual home: %s", path, e.Message)
		}
	}
}

// Where ACP_SOCKET is set nothing looks at a home, whatever it says.
// holds: security.md#agents-on-this-machine
func TestAgentSocket(t *testing.T) {
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { r.Respond(&Whoami{Name: "desk"}) })
	t.Setenv("ACP_SOCKET", s.path)
	t.Setenv("ACP_HOME", t.TempDir())
	who := func() (*Whoami, error) {
		var c Client
		defer c.Close()
		return c.Whoami(t.Context())
	}
	if w, err := who(); err != nil || w.Name != "desk" {
		t.Errorf("got %v, %v", w, err)
	}
	t.Setenv("ACP_HOME", filepath.Dir(s.path))
	dir := t.TempDir()
	t.Setenv("ACP_SOCKET", filepath.Join(dir, "acp.sock"))
	_, err := who()
	wantUnavailable(t, err, "no daemon at "+dir+"/acp.sock, which ACP_SOCKET names")
	_, err = DialHTTP(t.Context(), "")
	wantUnavailable(t, err, "no daemon at "+dir+"/http.sock, which ACP_SOCKET names")
	t.Setenv("ACP_SOCKET", "")
	_, err = who()
	wantUnavailable(t, err, "ACP_SOCKET is empty")
	_, err = DialHTTP(t.Context(), "")
	wantUnavailable(t, err, "ACP_SOCKET is empty")

	// Beside the agents' folder lies what is its owner's.
	owners, err := net.Listen("unix", filepath.Join(dir, HTTPSocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer owners.Close()
	for _, path := range []string{"agent", "agent/", HTTPSocketName} {
		t.Setenv("ACP_SOCKET", dir+"/"+path)
		_, err = who()
		wantUnavailable(t, err, "set it to the path of acp.sock")
		_, err = DialHTTP(t.Context(), "")
		wantUnavailable(t, err, "set it to the path of acp.sock")
	}
}

// The owner's socket is no agent's, whatever leads to it.
func TestAgentSocketIsNotTheOwners(t *testing.T) {
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { r.Respond(&Whoami{Name: "desk"}) })
	home := filepath.Dir(s.path)
	link := filepath.Join(t.TempDir(), SocketName)
	if err := os.Symlink(s.path, link); err != nil {
		t.Fatal(err)
	}
	for _, beside := range []string{AgentFolder, "identity.key"} {
		made := filepath.Join(home, beside)
		if err := os.Mkdir(made, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{s.path, link} {
			t.Setenv("ACP_SOCKET", path)
			var c Client
			_, err := c.Whoami(t.Context())
			c.Close()
			wantUnavailable(t, err, "ACP_SOCKET names the owner's socket: agents use "+filepath.Join(home, "agent", "acp.sock"))
			_, err = DialHTTP(t.Context(), "")
			wantUnavailable(t, err, "ACP_SOCKET names the owner's socket")
		}
		if err := os.Remove(made); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForbiddenSocket(t *testing.T) {
	sandboxed := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EPERM)}
	for variable, words := range map[string]string{
		"CODEX_SANDBOX_NETWORK_DISABLED": "Codex runs this command in a sandbox that forbids the socket /x/acp.sock: a daemon may well be running; use the tools acp_peers",
		"SANDBOX_RUNTIME":                "Claude Code runs this command in a sandbox that forbids the socket /x/acp.sock: a daemon may well be running; use the tools acp_peers",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv("CODEX_SANDBOX_NETWORK_DISABLED", "")
			t.Setenv("SANDBOX_RUNTIME", "")
			t.Setenv(variable, "1")
			wantUnavailable(t, newSocketError(sandboxed, "/x/acp.sock", "/x"), words)
		})
	}
	t.Setenv("CODEX_SANDBOX_NETWORK_DISABLED", "")
	t.Setenv("SANDBOX_RUNTIME", "")
	for _, errno := range []error{syscall.EPERM, syscall.EACCES} {
		err := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)}
		if e := wantUnavailable(t, newSocketError(err, "/x/acp.sock", "/x"), "sandbox or file permission"); e.Retryable {
			t.Errorf("%v: retryable", errno)
		}
	}
}

func TestHome(t *testing.T) {
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { r.Respond(&Whoami{Name: "desk"}) })
	home := filepath.Dir(s.path)
	t.Setenv("ACP_HOME", home)
	var c Client
	defer c.Close()
	_, err := c.Whoami(t.Context()) // what is there is the owner's
	wantUnavailable(t, err, "no daemon at "+home+"/agent/acp.sock")
	wantUnavailable(t, err, "start one with: acpctl up --home "+home)
	if err := os.Mkdir(filepath.Join(home, AgentFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.path, filepath.Join(home, AgentFolder, SocketName)); err != nil {
		t.Fatal(err)
	}
	if who, err := c.Whoami(t.Context()); err != nil || who.Name != "desk" {
		t.Errorf("got %v, %v", who, err)
	}
	t.Setenv("ACP_HOME", "")
	t.Setenv("HOME", "/home/planner")
	if dir, err := Home(); err != nil || dir != "/home/planner/.acp" {
		t.Errorf("got %s, %v", dir, err)
	}
	t.Setenv("ACP_HOME", "~/x") // as a file of variables has it
	if dir, err := Home(); err != nil || dir != "/home/planner/x" {
		t.Errorf("with a tilde: %s, %v", dir, err)
	}
	t.Setenv("ACP_SOCKET", "~/x/agent/acp.sock")
	if path, _, err := AgentSocket(); err != nil || path != "/home/planner/x/agent/acp.sock" {
		t.Errorf("a socket with a tilde: %s, %v", path, err)
	}
}
