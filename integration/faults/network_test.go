//go:build faults

package faults

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// relay is the only way between two daemons: each knows the other at the relay's address.
type relay struct {
	t            *testing.T
	desk, laptop *face
}

// face is a socket of the relay that one daemon takes for the other daemon. What comes to it leaves by the other face.
type face struct {
	daemon netip.AddrPort // which talks to it
	other  *face

	mu     sync.Mutex
	socket *net.UDPConn
}

// beginApart is begin with a relay in between.
func beginApart(t *testing.T) (*check, *relay) {
	t.Helper()
	c := newCheck(t, nil)
	r := &relay{t, &face{daemon: netip.MustParseAddrPort(c.desk.Addr)}, &face{daemon: netip.MustParseAddrPort(c.laptop.Addr)}}
	r.desk.other, r.laptop.other = r.laptop, r.desk
	for _, f := range []*face{r.desk, r.laptop} {
		r.move(f)
		t.Cleanup(func() { f.socket.Close() })
	}
	c.befriend(r.laptop.addr(), r.desk.addr())
	c.ready()
	return c, r
}

func (f *face) addr() string { return f.socket.LocalAddr().String() }

// move gives a face a new address: to the daemon on its side the other one is elsewhere now, and nothing is where
// it was.
func (r *relay) move(f *face) {
	r.t.Helper()
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		r.t.Fatal(err)
	}
	f.mu.Lock()
	before := f.socket
	f.socket = socket
	f.mu.Unlock()
	if before != nil {
		before.Close()
	}
	go f.pass(socket)
}

// pass passes on what the daemon sends to this socket, until that is closed.
func (f *face) pass(socket *net.UDPConn) {
	for b := make([]byte, 64<<10); ; {
		n, from, err := socket.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Probes come from sockets of their own; they get no answer.
		if err == nil && from == f.daemon {
			f.other.say(b[:n])
		}
	}
}

func (f *face) say(p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.socket.WriteToUDPAddrPort(p, f.daemon) // what cannot be sent is lost
}

// goesOn waits until calls of both sides succeed again, and logs how long that takes.
func (c *check) goesOn() {
	c.t.Helper()
	begun := time.Now()
	for _, s := range c.sides() {
		await.Until(c.t, "a call of "+s.Name+" succeeds", func() bool {
			_, err := s.Client.Ping(await.NewContext(c.t), client.PingParams{To: s.other.Name, TimeoutMS: 5000})
			return err == nil
		})
	}
	c.t.Logf("calls of both sides succeed after %s", time.Since(begun).Round(time.Millisecond))
}

// TestAddressChange: a daemon is elsewhere from one packet to the next, three times,
// and the other is where it was.
func TestAddressChange(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"desk", "laptop"} {
		t.Run("of "+who, func(t *testing.T) {
			t.Parallel()
			c, r := beginApart(t)
			moves := r.laptop // to laptop, desk is elsewhere
			if who == "laptop" {
				moves = r.desk
			}
			c.talk()
			for range 3 {
				c.held20()
				r.move(moves)
				c.goesOn()
			}
			c.quiet()
			c.settle()
		})
	}
}
