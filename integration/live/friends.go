package live

import (
	"context"
	"errors"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// NewFriends starts the daemons of two machines, desk and laptop, which trust each other, and returns when they are
// connected.
func NewFriends(t *testing.T) (desk, laptop *Machine) {
	t.Helper()
	desk, laptop = NewMachine(t, "desk"), NewMachine(t, "laptop")
	desk.LaunchDaemon()
	laptop.LaunchDaemon()
	desk.AwaitReady()
	laptop.AwaitReady()
	Befriend(desk, laptop)
	return desk, laptop
}

// Befriend makes two daemons trust each other, at the addresses at which they listen, and returns when they are
// connected.
func Befriend(a, b *Machine) {
	a.T.Helper()
	a.Trust(b, b.Addr)
	b.Trust(a, a.Addr)
	AwaitConnection(a, b)
}

// AwaitConnection waits until both daemons say that they are connected.
func AwaitConnection(a, b *Machine) {
	a.T.Helper()
	for _, pair := range [][2]*Machine{{a, b}, {b, a}} {
		await.Until(a.T, pair[0].Name+" is connected to "+pair[1].Name, func() bool { return pair[0].FindPeer(pair[1].ID).State == client.PeerConnected })
	}
}

// FindAgent returns an attached agent, or nil if there is none of that name or the daemon is away.
func (m *Machine) FindAgent(name string) *client.Agent {
	m.T.Helper()
	status, err := m.Client.Status(await.NewContext(m.T))
	if err != nil {
		return nil
	}
	for _, a := range status.Agents {
		if a.Name == name {
			return &a
		}
	}
	return nil
}

// AwaitAgent waits until an agent of that name is attached.
func (m *Machine) AwaitAgent(name string) {
	m.T.Helper()
	await.Until(m.T, name+" is attached to "+m.Name, func() bool { return m.FindAgent(name) != nil })
}

// Attach attaches an agent of this process until the test ends, and returns the client by which it calls. It attaches
// again when the daemon is back.
func (m *Machine) Attach(p client.AttachParams, h client.Handler) *client.Client {
	m.T.Helper()
	c := &client.Client{Socket: m.SocketPath()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Attach(ctx, p, h) }()
	m.T.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			m.T.Errorf("agent %s on %s: %v", p.Name, m.Name, err)
		}
		c.Close()
	})
	m.AwaitAgent(p.Name)
	return c
}

// Serve makes a command an agent: it runs acpctl serve with these arguments, and returns when the agent is attached.
func (m *Machine) Serve(name string, args ...string) *Process {
	m.T.Helper()
	p := m.StartAcpctl(append([]string{"serve", "--name", name}, args...)...)
	m.AwaitAgent(name)
	return p
}
