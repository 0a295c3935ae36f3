package peer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// rawLab is a node on a relay, and a trusted peer there that follows no rule. The node has a public
// address, and is attached to its /24.
type rawLab struct {
	*natLab
	node *side
	key  *identity.Key // of the peer
}

func newRawLab(t *testing.T, peerIsSmaller bool, edit func(*Config)) *rawLab {
	l := &rawLab{natLab: &natLab{router: newNATRouter(), relay: newRelayNet("home"), far: latency}}
	l.network = newNetwork(t, l.router)
	own, other := newKey(t), newKey(t)
	if (other.ID().Compare(own.ID()) < 0) != peerIsSmaller {
		own, other = other, own
	}
	l.node = l.natLab.node("203.0.113.10:7117", func(c *Config) {
		c.Key, c.STUN = own, nil
		if edit != nil {
			edit(c)
		}
	})
	l.key = other
	l.node.knows(other, "planner")
	l.start()
	l.node.serve()
	return l
}

// connect makes the peer's connection on the relay, with both hellos out.
func (l *rawLab) connect() *raw {
	l.t.Helper()
	link := l.relay.link(l.key.ID())
	link.attach(nil)
	h := newHost(l.t, link)
	l.t.Cleanup(func() { link.Close() }) // first, so that nothing waits in ReadFrom
	c := h.dialAt(relayAddr{l.relay.name, l.node.ID()}, l.node, l.key, identity.ALPN, &quic.Config{KeepAlivePeriod: 5 * time.Second})
	c.sendHello(func(h *wire.Hello) { h.Features = []string{FeaturePaths} })
	c.readHello()
	return c
}

// dialled returns where the node has sent packets.
func (l *rawLab) dialled() []netip.AddrPort { return l.router.targets(l.node.Addr()) }

// checkDialled fails for what may not be dialled in an hour.
func (l *rawLab) checkDialled() {
	l.t.Helper()
	all := l.dialled()
	if len(all) > 32 {
		l.t.Errorf("packets went to %d addresses", len(all))
	}
	for _, a := range all {
		ip := a.Addr()
		attached := netip.MustParsePrefix("203.0.113.0/24").Contains(ip)
		if a.Port() < 1024 || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsPrivate() ||
			ip == netip.MustParseAddr("255.255.255.255") || attached && (ip.As4()[3] == 0 || ip.As4()[3] == 10 || ip.As4()[3] == 255) {
			l.t.Errorf("a packet went to %s", a)
		}
	}
}

// hostileAddrs returns eight addresses: some that may be dialled, of hosts that are always others,
// and some that may not.
func hostileAddrs(rnd *rand.Rand) []string {
	forbidden := []string{
		"127.0.0.1:7117", "[::1]:7117", "224.0.0.251:5353", "255.255.255.255:7117", "203.0.113.255:7117", "203.0.113.0:7117", "203.0.113.10:7117", "203.0.113.10:22222",
		"0.0.0.0:7117", "10.0.0.1:7117", "192.168.1.1:7117", "169.254.1.1:7117", "198.51.100.7:53", "203.0.113.9:22", "[fe80::1]:7117", "[::ffff:127.0.0.1]:7117", "nats.example.org:4222", "",
	}
	all := make([]string, wire.MaxPaths)
	for i := range all {
		switch rnd.IntN(3) {
		case 0:
			all[i] = forbidden[rnd.IntN(len(forbidden))]
		case 1:
			all[i] = fmt.Sprintf("203.0.113.%d:%d", rnd.IntN(256), 1000+rnd.IntN(100))
		default:
			all[i] = fmt.Sprintf("198.51.%d.%d:%d", rnd.IntN(256), rnd.IntN(256), rnd.IntN(65536))
		}
	}
	return all
}

// TestHostilePeerIsNoPortScanner has a trusted peer name other addresses every second for ten
// minutes, begin rounds, answer those of the node, and connect anew each minute.
// holds: security.md#against-trusted-peers
func TestHostilePeerIsNoPortScanner(t *testing.T) {
	for _, smaller := range []bool{false, true} {
		t.Run(fmt.Sprintf("its id is the smaller one: %v", smaller), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newRawLab(t, smaller, nil)
				rnd := rand.New(rand.NewPCG(1, 2))
				answers := 0
				for range 10 {
					c := l.connect()
					go func() { // answers the node's rounds with other addresses, and counts its answers
						seen := rand.New(rand.NewPCG(3, 4))
						for {
							i, err := wire.ReadControlItem(c.in)
							if err != nil {
								return
							}
							if p, ok := i.(*wire.Paths); ok && p.Round >= 1000 {
								if len(p.Addrs) > 0 {
									answers++
								}
							} else if ok {
								b, _ := wire.AppendControlItem(nil, &wire.Paths{Round: p.Round, Addrs: hostileAddrs(seen)})
								c.qc.OpenUniStream() // so that the connection is not idle
								c.out.Write(b)
							}
						}
					}()
					parity := uint64(1)
					if smaller {
						parity = 0
					}
					for second := range 60 {
						time.Sleep(time.Second)
						b, err := wire.AppendControlItem(nil, &wire.Paths{Round: 1000 + 2*uint64(second) + parity, Addrs: hostileAddrs(rnd)})
						if err != nil {
							t.Fatal(err)
						}
						c.write(b)
					}
					c.qc.CloseWithError(0, "")
				}
				l.checkDialled()
				if n := len(l.dialled()); n < 20 {
					t.Errorf("packets went to %d addresses alone: the test shows nothing", n)
				}
				if answers < 2 || answers > 21 {
					t.Errorf("%d rounds were answered in 10 minutes", answers)
				}
			})
		})
	}
}

// TestOwnAddressIsNotDialled has a peer name the address at which the world sees the node, which is none of its
// interfaces'.
func TestOwnAddressIsNotDialled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRawLab(t, true, nil)
		l.node.localNetwork = func() localNetwork {
			return localNetwork{prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.10/24")}}
		}
		c := l.connect()
		c.write(item(t, &wire.Paths{Round: 2, Addrs: []string{"203.0.113.10:7117", "198.51.100.1:7117"}}))
		if own := next[*wire.Paths](c).Addrs; !slices.Equal(own, []string{"203.0.113.10:7117"}) {
			t.Fatalf("the node is seen at %v: the test shows nothing", own)
		}
		time.Sleep(punchTime)
		if to := l.dialled(); len(to) != 1 || to[0].String() != "198.51.100.1:7117" {
			t.Errorf("packets went to %v", to)
		}
		c.alive()
	})
}

// TestPunchingSendsNoProbe has a peer name addresses to a node that has a prober: they are dialled, and
// none is probed, as what is found at a port is not the peer's to know. A call's dial probes.
func TestPunchingSendsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRawLab(t, true, nil)
		var probes atomic.Int64
		l.node.udp.prober = hostProber(func(context.Context, net.Addr) probeResult {
			probes.Add(1)
			return probeSilent
		})
		c := l.connect()
		c.write(item(t, &wire.Paths{Round: 2, Addrs: []string{"198.51.100.1:7117", "198.51.101.1:7117"}}))
		next[*wire.Paths](c)
		time.Sleep(2 * punchTime)
		if to := l.dialled(); len(to) != 2 || probes.Load() != 0 {
			t.Errorf("packets went to %v, with %d probes", to, probes.Load())
		}
		c.alive()

		other := identity.Peer{ID: newKey(t).ID(), Name: "build", Addrs: []string{"198.51.100.2:7117"}}
		if _, err := l.node.trust.Trust(other); err != nil {
			t.Fatal(err)
		}
		l.node.Connect(other.ID)
		time.Sleep(dialTime)
		if probes.Load() == 0 {
			t.Error("a dial sends no probe: the test shows nothing")
		}
	})
}

// ignoresPaths expects that no item of paths is answered.
func (c *raw) ignoresPaths() {
	c.t.Helper()
	for round := range uint64(4) {
		c.write(item(c.t, &wire.Paths{Round: round, Addrs: []string{"198.51.100.1:7117"}}))
	}
	time.Sleep(5 * time.Second)
	c.write(item(c.t, &wire.Ping{N: 1, Pad: []byte{}}))
	next[*wire.Pong](c)
	if len(c.held) > 0 {
		c.t.Errorf("answered with %v", c.held)
	}
	c.alive()
}

func TestPathsOnADirectConnectionAreIgnored(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		key := newKey(t)
		b.knows(key, "planner")
		c := h.dial(b, key)
		c.sendHello(func(h *wire.Hello) { h.Features = []string{FeaturePaths} })
		c.readHello()
		c.ignoresPaths()
	})
}

// TestNoUpgradeIgnoresPaths has a peer begin rounds with a node that is told to stay on relays.
// holds: security.md#exposure-on-the-network
func TestNoUpgradeIgnoresPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRawLab(t, true, func(c *Config) { c.NoUpgrade = true })
		l.connect().ignoresPaths()
		if to := l.dialled(); len(to) > 0 {
			t.Errorf("packets went to %v", to)
		}
	})
}
