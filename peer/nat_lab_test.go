package peer

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
)

// natLab is a world with a STUN server, a relay, and two nodes behind NATs that know each other
// only by the relay.
type natLab struct {
	*network
	router *natRouter
	relay  *relayNet
	far    time.Duration // how long a packet takes to a node, beside the time on the relay
	a, b   *side
}

// natKind says what stands before a host.
type natKind string

const (
	portKeeping natKind = "port-keeping"
	symmetric   natKind = "symmetric"
	noNAT       natKind = "none"
)

// natPair is what stands before the two nodes of a lab.
type natPair [2]natKind

const stunServer = "203.0.113.1:3478"

// newNATLab makes one. edit changes the configuration of both nodes; they are not served yet.
func newNATLab(t *testing.T, before natPair, far time.Duration, edit func(*Config)) *natLab {
	l := &natLab{router: newNATRouter(), relay: newRelayNet("home"), far: far}
	l.network = newNetwork(t, l.router)
	addrs := [2]string{"10.1.0.2:7117", "10.2.0.2:7117"}
	for i, kind := range before {
		if kind == noNAT {
			addrs[i] = fmt.Sprintf("203.0.113.%d:7117", 10+i)
			continue
		}
		l.router.nat(fmt.Sprintf("10.%d.0.0/16", i+1), fmt.Sprintf("198.51.100.%d", i+1), kind == symmetric)
	}
	l.a, l.b = l.node(addrs[0], edit), l.node(addrs[1], edit)
	return l
}

func (l *natLab) socket(at string) net.PacketConn {
	addr := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(at))
	return l.sim.NewEndpoint(addr, simnet.NodeBiDiLinkSettings{Latency: l.far})
}

// node makes a node on the relay. Its host is attached to the /24 of its address.
func (l *natLab) node(at string, edit func(*Config)) *side {
	s := newSide(l.t, func(c *Config) {
		c.Conn = l.socket(at)
		c.STUN = []string{stunServer}
		if edit != nil {
			edit(c)
		}
		c.Links = []Link{l.relay.link(c.Key.ID())}
	})
	s.localNetwork = func() localNetwork {
		return localNetwork{prefixes: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddrPort(at).Addr(), 24)}}
	}
	return s
}

// run serves both nodes until the test ends.
func (l *natLab) run() *natLab {
	l.a.knows(l.b.cfg.Key, "reviewer")
	l.b.knows(l.a.cfg.Key, "planner")
	server := l.socket(stunServer)
	serveSTUN(server, 0)
	l.start()
	l.t.Cleanup(func() { server.Close() })
	l.a.serve()
	l.b.serve()
	return l
}

// sides returns both nodes, in one order or the other.
func (l *natLab) sides(swapped bool) (from, to *side) {
	if swapped {
		return l.b, l.a
	}
	return l.a, l.b
}

// path returns the path by which s reaches o; "": it is not connected.
func (s *side) path(o *side) Path {
	p, _ := s.Peer(o.ID())
	return p.Path
}

// awaitPath waits until both nodes use that path, and returns how long it took.
func (l *natLab) awaitPath(want Path, within time.Duration) time.Duration {
	l.t.Helper()
	began := time.Now()
	for l.a.path(l.b) != want || l.b.path(l.a) != want {
		if time.Since(began) > within {
			l.t.Fatalf("after %v the paths are %q and %q, expected %q", within, l.a.path(l.b), l.b.path(l.a), want)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

// countRounds returns how many rounds a node has begun with the other.
func (s *side) countRounds(o *side) int {
	r := s.findOrCreateState(o.ID()).rounds
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.number / 2)
}

// cutUDP drops all packets between the two nodes that do not go by the relay, or lets them pass
// again.
func (l *natLab) cutUDP(yes bool) {
	l.router.mu.Lock()
	defer l.router.mu.Unlock()
	l.router.cut = nil
	if yes {
		l.router.cut = func(from, to netip.AddrPort) bool {
			server := netip.MustParseAddrPort(stunServer)
			return from != server && to != server
		}
	}
}

// inLab runs f in a bubble with a lab.
func inLab(t *testing.T, before natPair, edit func(*Config), f func(t *testing.T, l *natLab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newNATLab(t, before, latency, edit).run()) })
}
