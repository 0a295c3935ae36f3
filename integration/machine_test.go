package integration

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

// machine is one with what these tests do on it.
type machine struct{ *live.Machine }

// newMachine makes a state directory; see Start.
func newMachine(t *testing.T, name string) *machine {
	t.Helper()
	return &machine{live.NewMachine(t, name)}
}

// running makes a machine with a daemon.
func running(t *testing.T, name string) *machine {
	t.Helper()
	m := newMachine(t, name)
	m.StartDaemon()
	return m
}

// friends runs two daemons that trust each other: desk and laptop.
func friends(t *testing.T) (desk, laptop *machine) {
	t.Helper()
	desk, laptop = newMachine(t, "desk"), newMachine(t, "laptop")
	desk.LaunchDaemon()
	laptop.LaunchDaemon()
	desk.AwaitReady()
	laptop.AwaitReady()
	befriend(t, desk, laptop)
	return desk, laptop
}

// befriend makes two daemons trust each other under the names that they have, and
// waits until they are connected.
func befriend(t *testing.T, a, b *machine) {
	t.Helper()
	a.Trust(b.Machine, b.Addr)
	b.Trust(a.Machine, a.Addr)
	a.connected(b)
	b.connected(a)
}

// connected waits until the daemons have a connection.
func (m *machine) connected(to *machine) {
	m.T.Helper()
	await.Until(m.T, m.Name+" is connected to "+to.Name, func() bool { return m.FindPeer(to.ID).State == client.PeerConnected })
}

// status returns the answer of the method status.
func (m *machine) status() *client.Status {
	m.T.Helper()
	s, err := m.Client.Status(await.NewContext(m.T))
	if err != nil {
		m.T.Fatalf("status of %s: %v", m.Name, err)
	}
	return s
}

// socket is a connection to a daemon that says what it likes.
type socket struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func (m *machine) dial() *socket {
	m.T.Helper()
	c, err := net.Dial("unix", m.SocketPath())
	if err != nil {
		m.T.Fatal(err)
	}
	m.T.Cleanup(func() { c.Close() })
	return &socket{c, m.T, bufio.NewReaderSize(c, 1<<20)}
}

// say writes a line.
func (s *socket) say(line string) {
	s.t.Helper()
	s.SetWriteDeadline(time.Now().Add(await.Patience))
	if _, err := s.Write([]byte(line + "\n")); err != nil {
		s.t.Fatalf("%.80s: %v", line, err)
	}
}

// hear reads a line.
func (s *socket) hear() string {
	s.t.Helper()
	s.SetReadDeadline(time.Now().Add(await.Patience))
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
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.Code != code {
		t.Fatalf("got error %v, want %s", err, code)
	}
	return e
}
