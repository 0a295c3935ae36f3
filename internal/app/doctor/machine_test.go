package doctor

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/daemon"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/harness/setup"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// site is a state directory with a daemon that runs in this process, or has run.
type site struct {
	t       *testing.T
	home    string
	name    string
	version string
	client  *client.Client
	id      identity.ID
	addr    string
	stop    func() // ends the daemon; nil: none runs
}

func newSite(t *testing.T, name string) *site {
	s := &site{t: t, home: live.MakeTempDir(t), name: name, version: "1.0.0"}
	s.client = &client.Client{Socket: filepath.Join(s.home, client.SocketName)}
	t.Cleanup(func() { s.client.Close() })
	return s
}

// startSite makes a state directory and starts a daemon on it.
func startSite(t *testing.T, name string) *site {
	s := newSite(t, name)
	s.start()
	return s
}

// endedSite makes a state directory whose daemon has ended. Only the first is of a daemon that ran:
// the others are copies.
func endedSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t, "desk")
	firstEnded.Do(func() {
		first := startSite(t, s.name)
		first.stop()
		firstEnded.id, firstEnded.addr = first.id, first.addr
		firstEnded.files = readFiles(t, first.home)
	})
	for name, data := range firstEnded.files {
		s.write(name, data)
	}
	if err := os.Mkdir(filepath.Join(s.home, client.AgentFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	s.id, s.addr = firstEnded.id, firstEnded.addr
	return s
}

var firstEnded struct {
	sync.Once
	id    identity.ID
	addr  string
	files map[string]string
}

// readFiles returns the contents of the files that are directly in a folder.
func readFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// start starts the daemon, on loopback, at the address that it had before.
func (s *site) start() {
	s.t.Helper()
	if _, err := os.Lstat(filepath.Join(s.home, "state.db")); os.IsNotExist(err) {
		s.write("state.db", readTables(s.t)) // to make them anew costs most of what a start does
	}
	ctx, cancel := context.WithCancel(context.Background())
	d, err := daemon.OpenDaemon(ctx, daemon.Options{Home: s.home, Name: s.name, Version: s.version, Listen: "127.0.0.1:0", NoMDNS: true})
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx, nil) }()
	stopped := false
	s.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			<-ended
		}
	}
	s.t.Cleanup(s.stop)
	me, err := s.client.Whoami(await.NewContext(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	s.id, s.addr = me.ID, me.Listen[0]
}

// readTables returns the state.db of a daemon that has all tables and no rows.
func readTables(t *testing.T) string {
	t.Helper()
	tables.Do(func() {
		home := live.MakeTempDir(t)
		addr := live.PickAddr(t) // else all would try to have the port that this one has kept
		d, err := daemon.OpenDaemon(context.Background(), daemon.Options{Home: home, Name: "tables", Version: "1.0.0", Listen: addr, NoMDNS: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		tables.db = readFiles(t, home)["state.db"]
	})
	return tables.db
}

var tables struct {
	sync.Once
	db string
}

func (s *site) trust(other *site, addrs ...string) {
	s.t.Helper()
	if _, err := s.client.Trust(await.NewContext(s.t), client.TrustParams{Peer: other.id.String(), Name: other.name, Addrs: addrs}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) awaitState(other *site, want client.PeerState) {
	s.t.Helper()
	await.Until(s.t, s.name+" sees "+other.name+" as "+string(want), func() bool {
		peers, err := s.client.Peers(await.NewContext(s.t))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, p := range peers {
			if p.ID == other.id {
				return p.State == want
			}
		}
		return false
	})
}

// startPair starts two daemons that trust each other and are connected.
func startPair(t *testing.T) (desk, laptop *site) {
	desk, laptop = startSite(t, "desk"), startSite(t, "laptop")
	desk.trust(laptop, laptop.addr)
	laptop.trust(desk, desk.addr)
	desk.awaitState(laptop, client.PeerConnected)
	laptop.awaitState(desk, client.PeerConnected)
	return desk, laptop
}

func (s *site) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.home, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// damage changes the middle of a file.
func (s *site) damage(name string) {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.home, name))
	if err != nil {
		s.t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	s.write(name, string(data))
}

func (s *site) remove(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(s.home, name)); err != nil && !os.IsNotExist(err) {
			s.t.Fatal(err)
		}
	}
}

// quietMachine is a machine with which nothing is wrong, whatever that of the test is like.
func quietMachine(t *testing.T) Machine {
	m := ThisMachine()
	m.Root, m.OS = t.TempDir(), "linux"
	m.HearMulticast = func(context.Context, net.Interface) error { return nil }
	m.ListInterfaces = func() ([]net.Interface, error) {
		return []net.Interface{{Index: 2, Name: "eth0", Flags: net.FlagUp | net.FlagMulticast}}, nil
	}
	m.IsClockSynced = func() (bool, bool) { return true, true }
	m.ListenUDP = func(string) error { return nil }
	m.MaxDescriptors = func() int { return 1024 }
	m.MeasureSpace = func(path string) (disk.Space, error) { // of the size of which a daemon sees it
		space, err := disk.MeasureSpace(path)
		return disk.Space{Free: 50 << 30, Total: space.Total}, err
	}
	return m
}

// putFile writes a file of the machine.
func (m *Machine) putFile(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(m.Root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// options are those of an examination of a state directory, without programs.
func options(t *testing.T, home string) Options {
	local := &client.Client{Socket: filepath.Join(home, client.SocketName), Patience: askPatience}
	t.Cleanup(func() { local.Close() })
	return Options{
		Home: home, Version: "1.0.0", Daemon: local, Machine: quietMachine(t),
		Channels: &channels.Client{Daemon: local, Home: home}, OACPHome: os.Getenv("OACP_HOME"),
	}
}

// setupOptions are those of a user's programs, of which none is there.
func setupOptions(t *testing.T) setup.Options {
	user := t.TempDir()
	bin := filepath.Join(user, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	command := filepath.Join(bin, "acpctl")
	if err := os.WriteFile(command, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return setup.Options{Home: user, State: filepath.Join(user, "state"), Command: command, Getenv: func(string) string { return "" }}
}

// examine examines, and fails the test at an error.
func examine(t *testing.T, o Options) []Finding {
	t.Helper()
	all, err := Examine(await.NewContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const anHour = time.Hour
