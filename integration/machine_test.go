package integration

import (
	"bufio"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// machine is a state directory and the daemon that runs on it.
type machine struct {
	t    *testing.T
	name string
	home string
	acpd *process
	id   identity.ID
	addr string
}

// newMachine makes a state directory; see start.
func newMachine(t *testing.T, name string) *machine {
	t.Helper()
	return &machine{t: t, name: name, home: shortDir(t)}
}

// running makes a machine with a daemon.
func running(t *testing.T, name string) *machine {
	t.Helper()
	m := newMachine(t, name)
	m.start()
	return m
}

// command is acpd's command line on this machine.
func (m *machine) command(more ...string) []string {
	return append([]string{program(m.t, "acpd"), "--home", m.home, "--name", m.name, "--no-mdns", "--listen", "127.0.0.1:0"}, more...)
}

// launch starts the daemon and does not wait for it.
func (m *machine) launch(more ...string) {
	m.t.Helper()
	m.acpd = begin(m.t, environ(m.t, m.home), m.command(more...)...)
}

// start starts the daemon, again at the address that it had.
func (m *machine) start(more ...string) {
	m.t.Helper()
	m.launch(more...)
	m.ready()
}

func (m *machine) ready() {
	m.t.Helper()
	c := m.client()
	var who *client.Whoami
	eventually(m.t, m.name+" is ready", func() (ok bool) {
		if !m.acpd.running() {
			m.t.Fatalf("acpd ended: %s", m.acpd.stderr.String())
		}
		var err error
		who, err = c.Whoami(inTime(m.t))
		return err == nil
	})
	if m.addr != "" && (who.Listen[0] != m.addr || who.ID != m.id) {
		m.t.Errorf("%s comes back as %s at %s, was %s at %s", m.name, who.ID, who.Listen[0], m.id, m.addr)
	}
	m.id, m.addr = who.ID, who.Listen[0]
}

// kill ends the daemon as a power cut would.
func (m *machine) kill() {
	m.acpd.signal(syscall.SIGKILL)
	<-m.acpd.ended
}

// stop asks the daemon to end and waits.
func (m *machine) stop() {
	m.t.Helper()
	m.acpd.signal(syscall.SIGTERM)
	m.acpd.exits(0)
}

// friends runs two daemons that trust each other: desk and laptop.
func friends(t *testing.T) (desk, laptop *machine) {
	t.Helper()
	desk, laptop = newMachine(t, "desk"), newMachine(t, "laptop")
	desk.launch()
	laptop.launch()
	desk.ready()
	laptop.ready()
	befriend(t, desk, laptop)
	return desk, laptop
}

// befriend makes two daemons trust each other under the names that they have, and
// waits until they are connected.
func befriend(t *testing.T, a, b *machine) {
	t.Helper()
	ctx := inTime(t)
	for _, side := range [][2]*machine{{a, b}, {b, a}} {
		m, other := side[0], side[1]
		if _, err := m.client().Trust(ctx, client.TrustParams{Peer: other.id.String(), Name: other.name, Addrs: []string{other.addr}}); err != nil {
			t.Fatalf("%s trusts %s: %v", m.name, other.name, err)
		}
	}
	a.connected(b)
	b.connected(a)
}

// connected waits until the daemons have a connection.
func (m *machine) connected(to *machine) {
	m.t.Helper()
	eventually(m.t, m.name+" is connected to "+to.name, func() bool { return m.peer(to).State == client.PeerConnected })
}

// peer is how the machine sees another one; zero if it does not know it.
func (m *machine) peer(other *machine) client.Peer {
	m.t.Helper()
	all, err := m.client().Peers(inTime(m.t))
	if err != nil {
		m.t.Fatalf("peers of %s: %v", m.name, err)
	}
	for _, p := range all {
		if p.ID == other.id {
			return p
		}
	}
	return client.Peer{}
}

// client is a new one, for calls.
func (m *machine) client() *client.Client {
	c := &client.Client{Socket: m.socket()}
	m.t.Cleanup(func() { c.Close() })
	return c
}

func (m *machine) socket() string { return filepath.Join(m.home, client.SocketName) }

// status is what status says.
func (m *machine) status() *client.Status {
	m.t.Helper()
	s, err := m.client().Status(inTime(m.t))
	if err != nil {
		m.t.Fatalf("status of %s: %v", m.name, err)
	}
	return s
}

// begin starts acpctl on this machine.
func (m *machine) begin(args ...string) *process {
	m.t.Helper()
	return begin(m.t, environ(m.t, m.home), append([]string{program(m.t, "acpctl"), "--home", m.home}, args...)...)
}

// run runs acpctl, which must end with that exit code.
func (m *machine) run(code int, args ...string) *process {
	m.t.Helper()
	p := m.begin(args...)
	p.exits(code)
	return p
}

// must runs acpctl, which must succeed, and returns what it printed.
func (m *machine) must(args ...string) string {
	m.t.Helper()
	return m.run(0, args...).stdout.String()
}

// socket is a connection to a daemon that says what it likes.
type socket struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func (m *machine) dial() *socket {
	m.t.Helper()
	c, err := net.Dial("unix", m.socket())
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { c.Close() })
	return &socket{c, m.t, bufio.NewReaderSize(c, 1<<20)}
}

// say writes a line.
func (s *socket) say(line string) {
	s.t.Helper()
	s.SetWriteDeadline(time.Now().Add(patience))
	if _, err := s.Write([]byte(line + "\n")); err != nil {
		s.t.Fatalf("%.80s: %v", line, err)
	}
}

// hear reads a line.
func (s *socket) hear() string {
	s.t.Helper()
	s.SetReadDeadline(time.Now().Add(patience))
	line, err := s.in.ReadString('\n')
	if err != nil {
		s.t.Fatalf("no answer: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// ask says a line and returns the answer.
func (s *socket) ask(line string) string {
	s.t.Helper()
	s.say(line)
	return s.hear()
}

// is expects an error of a code.
func is(t *testing.T, code kinds.Code, err error) *kinds.Error {
	t.Helper()
	var e *kinds.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got error %v, want %s", err, code)
	}
	return e
}
