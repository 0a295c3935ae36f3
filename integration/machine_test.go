package integration

import (
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
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
	d, l := live.NewFriends(t)
	return &machine{d}, &machine{l}
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
