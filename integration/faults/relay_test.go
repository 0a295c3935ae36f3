//go:build faults

package faults

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

// relay is the only way between two daemons: each knows the other at the relay's
// address. It does to the packets what networks do.
type relay struct {
	t            *testing.T
	desk, laptop *face

	mu      sync.Mutex
	rnd     *rand.Rand
	weather weather
	seen    weather // how many packets met what
	packets int
}

// weather holds the probability of each thing that happens to packets.
type weather struct{ lost, twice, late, broken float64 }

// face is a socket of the relay that one daemon takes for the other daemon. What it hears
// leaves by the other face.
type face struct {
	daemon netip.AddrPort // which talks to it
	other  *face

	mu     sync.Mutex
	socket *net.UDPConn
}

// latest bounds the delay of a late packet, which others overtake.
const latest = 30 * time.Millisecond

// newRelay makes the relay between the daemons of a check.
func newRelay(t *testing.T, c *check) *relay {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &relay{t: t, rnd: rand.New(rand.NewPCG(seed, 0))}
	r.desk = &face{daemon: netip.MustParseAddrPort(c.desk.Addr)}
	r.laptop = &face{daemon: netip.MustParseAddrPort(c.laptop.Addr)}
	r.desk.other, r.laptop.other = r.laptop, r.desk
	r.move(r.desk)
	r.move(r.laptop)
	t.Cleanup(func() {
		r.desk.socket.Close()
		r.laptop.socket.Close()
	})
	return r
}

// beginApart is begin with a relay in between.
func beginApart(t *testing.T) (*check, *relay) {
	t.Helper()
	c := newCheck(t, nil)
	r := newRelay(t, c)
	c.befriend(r.laptop.addr(), r.desk.addr())
	c.ready()
	return c, r
}

func (f *face) addr() string { return f.socket.LocalAddr().String() }

// move gives a face a new address: to the daemon on its side the other one is
// elsewhere now, and nothing is where it was.
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
	go r.pass(f, socket)
}

// pass passes on what the daemon says to this socket, until that is closed.
func (r *relay) pass(f *face, socket *net.UDPConn) {
	b := make([]byte, 64<<10)
	for {
		n, from, err := socket.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Probes come from sockets of their own; to them this is a host that says nothing.
		if err == nil && from == f.daemon {
			r.carry(f.other, slices.Clone(b[:n]))
		}
	}
}

// carry does to a packet what the weather wants, and says what is left of it to the
// daemon on the other side.
func (r *relay) carry(f *face, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.packets++
	happens := func(chance float64, seen *float64) bool {
		if r.rnd.Float64() >= chance {
			return false
		}
		*seen++
		return true
	}
	if happens(r.weather.lost, &r.seen.lost) {
		return
	}
	copies := 1
	if happens(r.weather.twice, &r.seen.twice) {
		copies = 2
	}
	for range copies {
		copied := slices.Clone(p)
		if happens(r.weather.broken, &r.seen.broken) {
			copied[r.rnd.IntN(len(copied))] ^= byte(1 + r.rnd.IntN(255))
		}
		if happens(r.weather.late, &r.seen.late) {
			time.AfterFunc(time.Duration(r.rnd.Int64N(int64(latest))), func() { f.say(copied) })
		} else {
			f.say(copied)
		}
	}
}

func (f *face) say(p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.socket.WriteToUDPAddrPort(p, f.daemon) // what cannot be sent is lost
}

// become makes the weather.
func (r *relay) become(w weather) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.weather = w
}

// log tells what packets met.
func (r *relay) log() weather {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.t.Logf("of %d packets were lost %.0f, twice %.0f, late %.0f, broken %.0f", r.packets, r.seen.lost, r.seen.twice, r.seen.late, r.seen.broken)
	return r.seen
}
