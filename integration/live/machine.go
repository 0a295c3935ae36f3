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
	Acpd   *Process                 // the daemon; nil before its first start
	ID     identity.ID              // ID and Addr are known when the daemon is ready
	Addr   string
	Client *client.Client // for calls
	T      *testing.T
}

// New makes a state directory; see Start. The daemon is alone with the peers that it
// is told of: it listens on loopback.
func New(t *testing.T, name string) *Machine {
	t.Helper()
	m := &Machine{
		Name: name, Home: Dir(t), Flags: []string{"--no-mdns", "--listen", "127.0.0.1:0"},
		In: func(start func() error) error { return start() }, T: t,
	}
	m.Client = &client.Client{Socket: m.Socket()}
	t.Cleanup(func() { m.Client.Close() })
	return m
}

// Dir is a temporary directory whose path leaves room for a socket's name, which
// that of t.TempDir may not.
func Dir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "acp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Socket is the path of the daemon's socket.
func (m *Machine) Socket() string { return filepath.Join(m.Home, client.SocketName) }

// Command is acpd's command line on this machine.
func (m *Machine) Command(more ...string) []string {
	m.T.Helper()
	return slices.Concat([]string{Program(m.T, "acpd"), "--home", m.Home, "--name", m.Name}, m.Flags, more)
}

// Prepare prepares a process on this machine.
func (m *Machine) Prepare(argv ...string) *Process {
	m.T.Helper()
	return Prepare(m.T, Environ(m.T, m.Home, m.Env...), argv...)
}

// Begin starts a process on this machine.
func (m *Machine) Begin(argv ...string) *Process {
	m.T.Helper()
	p := m.Prepare(argv...)
	if err := m.In(p.Start); err != nil {
		m.T.Fatal(err)
	}
	return p
}

// Acpctl starts acpctl, for this daemon.
func (m *Machine) Acpctl(args ...string) *Process {
	m.T.Helper()
	return m.Begin(append([]string{Program(m.T, "acpctl"), "--home", m.Home}, args...)...)
}

// Run runs acpctl, which must end with that exit code.
func (m *Machine) Run(code int, args ...string) *Process {
	m.T.Helper()
	p := m.Acpctl(args...)
	p.Exits(code)
	return p
}

// Must runs acpctl, which must succeed, and returns what it printed.
func (m *Machine) Must(args ...string) string {
	m.T.Helper()
	return m.Acpctl(args...).Exits(0)
}

// Launch starts the daemon and does not wait for it; see Ready.
func (m *Machine) Launch(more ...string) {
	m.T.Helper()
	m.Acpd = m.Begin(m.Command(more...)...)
}

// Start starts the daemon, again at the address that it had.
func (m *Machine) Start(more ...string) {
	m.T.Helper()
	m.Launch(more...)
	m.Ready()
}

// Ready waits until the daemon answers.
func (m *Machine) Ready() {
	m.T.Helper()
	var who *client.Whoami
	await.Until(m.T, m.Name+" is ready", func() bool {
		if !m.Acpd.Running() {
			m.T.Fatalf("acpd ended: %s", m.Acpd.Stderr.String())
		}
		var err error
		who, err = m.Client.Whoami(await.Context(m.T))
		return err == nil
	})
	if m.Addr != "" && (who.Listen[0] != m.Addr || who.ID != m.ID) {
		m.T.Errorf("%s comes back as %s at %s, was %s at %s", m.Name, who.ID, who.Listen[0], m.ID, m.Addr)
	}
	m.ID, m.Addr = who.ID, who.Listen[0]
}

// Kill ends the daemon as a power cut would, and returns when that began.
func (m *Machine) Kill() (at time.Time) {
	at = time.Now()
	m.Acpd.Signal(syscall.SIGKILL)
	<-m.Acpd.Ended
	return at
}

// Stop asks the daemon to end, waits, and returns when that began.
func (m *Machine) Stop() (at time.Time) {
	m.T.Helper()
	at = time.Now()
	m.Acpd.Signal(syscall.SIGTERM)
	m.Acpd.Exits(0)
	return at
}

// Trust makes the daemon trust another one's key, by its full id and under its name.
func (m *Machine) Trust(other *Machine, addrs ...string) {
	m.T.Helper()
	if _, err := m.Client.Trust(await.Context(m.T), client.TrustParams{Peer: other.ID.String(), Name: other.Name, Addrs: addrs}); err != nil {
		m.T.Fatalf("%s trusts %s: %v", m.Name, other.Name, err)
	}
}

// Peers is what acpctl peers lists.
func (m *Machine) Peers() []client.Peer {
	m.T.Helper()
	peers, err := m.Client.Peers(await.Context(m.T))
	if err != nil {
		m.T.Fatalf("peers of %s: %v", m.Name, err)
	}
	return peers
}

// Peer is how the daemon sees another one; zero if it does not know it.
func (m *Machine) Peer(id identity.ID) client.Peer {
	m.T.Helper()
	for _, p := range m.Peers() {
		if p.ID == id {
			return p
		}
	}
	return client.Peer{}
}
