// Package live runs acpd and acpctl for tests as their users do: as processes.
//
// A Machine is a state directory and the daemon that runs on it, a Process any
// program. Every process ends with its test, which fails if it does not end when it
// is asked to, and then shows what it said.
package live

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

// Machine is a state directory and the daemon that runs on it.
type Machine struct {
	Name   string
	Home   string
	Flags  []string                 // of acpd, beside those for name and home
	Env    []string                 // of all its processes
	In     func(func() error) error // calls what starts a process, where the process shall be
	Builds map[string]string        // paths of acpd and acpctl where they are not those that Build builds
	Acpd   *Process                 // the daemon; nil before its first start
	ID     identity.ID              // ID and Addr are known when the daemon is ready
	Addr   string
	Client *client.Client // for calls
	T      *testing.T
}

// NewMachine makes a state directory; see StartDaemon. The daemon is alone with the peers that it
// is told of: it listens on loopback.
func NewMachine(t *testing.T, name string) *Machine {
	t.Helper()
	m := &Machine{
		Name: name, Home: MakeTempDir(t), Flags: []string{"--no-mdns", "--listen", PickAddr(t)},
		In: func(start func() error) error { return start() }, T: t,
	}
	m.Client = &client.Client{Socket: m.SocketPath()}
	t.Cleanup(func() { m.Client.Close() })
	return m
}

// MakeTempDir is a temporary directory whose path leaves room for a socket's name, which
// that of t.TempDir may not.
func MakeTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "acp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// SocketPath is the path of the daemon's socket.
func (m *Machine) SocketPath() string { return filepath.Join(m.Home, client.SocketName) }

// ProgramPath is the path of acpd or acpctl on this machine.
func (m *Machine) ProgramPath(name string) string {
	m.T.Helper()
	if path := m.Builds[name]; path != "" {
		return path
	}
	return ProgramPath(m.T, name)
}

// DaemonCommand is acpd's command line on this machine.
func (m *Machine) DaemonCommand(more ...string) []string {
	m.T.Helper()
	return slices.Concat([]string{m.ProgramPath("acpd"), "--home", m.Home, "--name", m.Name}, m.Flags, more)
}

// PrepareProcess prepares a process on this machine.
func (m *Machine) PrepareProcess(argv ...string) *Process {
	m.T.Helper()
	return PrepareProcess(m.T, NewEnviron(m.T, m.Home, m.Env...), argv...)
}

// StartProcess starts a process on this machine.
func (m *Machine) StartProcess(argv ...string) *Process {
	m.T.Helper()
	p := m.PrepareProcess(argv...)
	if err := m.In(p.Start); err != nil {
		m.T.Fatal(err)
	}
	return p
}

// StartAcpctl starts acpctl, for this daemon.
func (m *Machine) StartAcpctl(args ...string) *Process {
	m.T.Helper()
	return m.StartProcess(append([]string{m.ProgramPath("acpctl"), "--home", m.Home}, args...)...)
}

// RunAcpctl runs acpctl, which must end with that exit code.
func (m *Machine) RunAcpctl(code int, args ...string) *Process {
	m.T.Helper()
	p := m.StartAcpctl(args...)
	p.AwaitExit(code)
	return p
}

// MustOutput runs acpctl, which must succeed, and returns what it printed.
func (m *Machine) MustOutput(args ...string) string {
	m.T.Helper()
	return m.StartAcpctl(args...).AwaitExit(0)
}

// LaunchDaemon starts the daemon and does not wait for it; see AwaitReady.
func (m *Machine) LaunchDaemon(more ...string) {
	m.T.Helper()
	if len(m.Builds) == 0 && IsRaceEnabled() {
		m.addTables()
	}
	m.Acpd = m.StartProcess(m.DaemonCommand(more...)...)
}

// StartDaemon starts the daemon, again at the address that it had.
func (m *Machine) StartDaemon(more ...string) {
	m.T.Helper()
	m.LaunchDaemon(more...)
	m.AwaitReady()
}

// AwaitReady waits until the daemon answers.
func (m *Machine) AwaitReady() {
	m.T.Helper()
	var who *client.Whoami
	await.Until(m.T, m.Name+" is ready", func() bool {
		if !m.Acpd.IsRunning() {
			m.T.Fatalf("acpd ended: %s", m.Acpd.Stderr.String())
		}
		var err error
		who, err = m.Client.Whoami(await.NewContext(m.T))
		return err == nil
	})
	if m.Addr != "" && (who.Listen[0] != m.Addr || who.ID != m.ID) {
		m.T.Errorf("%s comes back as %s at %s, was %s at %s", m.Name, who.ID, who.Listen[0], m.ID, m.Addr)
	}
	m.ID, m.Addr = who.ID, who.Listen[0]
}

// KillDaemon ends the daemon as a power cut would, and returns when that began.
func (m *Machine) KillDaemon() (at time.Time) {
	at = time.Now()
	m.Acpd.Signal(syscall.SIGKILL)
	<-m.Acpd.Ended
	return at
}

// StopDaemon asks the daemon to end, waits, and returns when that began.
func (m *Machine) StopDaemon() (at time.Time) {
	m.T.Helper()
	at = time.Now()
	m.Acpd.Signal(syscall.SIGTERM)
	m.Acpd.AwaitExit(0)
	return at
}

// Trust makes the daemon trust another one's key, by its full id and under its name.
func (m *Machine) Trust(other *Machine, addrs ...string) {
	m.T.Helper()
	if _, err := m.Client.Trust(await.NewContext(m.T), client.TrustParams{Peer: other.ID.String(), Name: other.Name, Addrs: addrs}); err != nil {
		m.T.Fatalf("%s trusts %s: %v", m.Name, other.Name, err)
	}
}

// ListPeers returns the peers that acpctl peers lists.
func (m *Machine) ListPeers() []client.Peer {
	m.T.Helper()
	peers, err := m.Client.Peers(await.NewContext(m.T))
	if err != nil {
		m.T.Fatalf("peers of %s: %v", m.Name, err)
	}
	return peers
}

// FindPeer returns what the daemon says of another one, or the zero value if it does not know
// that one.
func (m *Machine) FindPeer(id identity.ID) client.Peer {
	m.T.Helper()
	for _, p := range m.ListPeers() {
		if p.ID == id {
			return p
		}
	}
	return client.Peer{}
}
