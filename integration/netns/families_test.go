//go:build netns

package netns

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// Where the machines of a network with both families are. The networks are for documentation (RFC 5737,
// RFC 3849), so their addresses count as public.
const (
	hubAddr6    = "2001:db8:1::1"
	deskWide    = "203.0.113.30"
	deskWide6   = "2001:db8:1::30"
	laptopWide  = "198.51.100.40"
	laptopWide6 = "2001:db8:2::40"
)

// firstRound is longer than the first round of dials for a direct path, and ends before the next one, which
// begins 30 s after it.
const firstRound = 10 * time.Second

// twoFamilies is a hub, which everybody reaches over IPv4 and over IPv6, and two hosts. Between them the hub
// passes packets of both families on, and to the laptop no others than answers.
type twoFamilies struct {
	*lab
	server       *natsServer
	desk, laptop *host
}

// newTwoFamilies makes them, the hosts with the addresses that each has.
func newTwoFamilies(t *testing.T, desk, laptop family) *twoFamilies {
	t.Helper()
	l := newLab(t, "wan", "lan")
	hub := l.host("hub")
	hub.wire("eth0", "wan", hubAddr+"/24", hubAddr6+"/64")
	hub.wire("eth1", "lan", "198.51.100.1/24", "2001:db8:2::1/64")
	hub.sysctl("net/ipv4/ip_forward", "1")
	hub.sysctl("net/ipv6/conf/all/forwarding", "1")
	hub.nft(`
table inet filter {
	chain passing {
		type filter hook forward priority 0
		oifname "eth1" ct state new drop
	}
}
`)
	n := &twoFamilies{lab: l, server: hub.nats(hubAddr, hubAddr6)}
	n.desk = l.hostOf(desk, "desk", "wan", deskWide, hubAddr, deskWide6, hubAddr6)
	n.laptop = l.hostOf(laptop, "laptop", "lan", laptopWide, "198.51.100.1", laptopWide6, "2001:db8:2::1")
	return n
}

// hostOf makes a host with an address and a gateway of one family, or of both.
func (l *lab) hostOf(f family, name, bridge, addr4, gateway4, addr6, gateway6 string) *host {
	l.t.Helper()
	h := l.host(name)
	if f == ipv4 {
		h.withoutIPv6()
	}
	h.wire("eth0", bridge)
	if f != ipv6 {
		h.addrs("eth0", addr4+"/24")
		h.ip("route add 0.0.0.0/0 via " + gateway4)
	}
	if f != ipv4 {
		h.addrs("eth0", addr6+"/64")
		h.ip("route add ::/0 via " + gateway6)
	}
	return h
}

// start starts a daemon that reaches the relay over one family.
func (n *twoFamilies) start(h *host, over family) *daemon {
	n.t.Helper()
	token, err := os.ReadFile(n.server.token)
	if err != nil {
		n.t.Fatal(err)
	}
	addr := hubAddr
	if over == ipv6 {
		addr = "[" + hubAddr6 + "]"
	}
	return h.relayed(h.name, n.server, fmt.Sprintf("reach: {relays: [{name: hub, url: %q, token: %s}]}\nlog: {level: debug}\n", "tls://"+addr+":4222", strings.TrimSpace(string(token))))
}

// One host has both families, and the other one has one alone. They meet over a relay, and then over the
// family that both have, although the first address that the laptop is told is of the other one. Where they
// have none in common they stay on the relay. No call fails meanwhile.
func TestFamiliesOfOneSide(t *testing.T) {
	t.Parallel()
	for _, is := range []struct {
		desk, laptop family
		over         family // the desk's way to the relay, which sees the address that the desk tells first
		told         int    // addresses of the desk, which the laptop dials
		direct       string // the desk's address at the end; "": that at the relay
	}{
		{desk: both, laptop: ipv4, over: ipv6, told: 2, direct: deskWide + ":7117"},
		{desk: both, laptop: ipv6, over: ipv4, told: 2, direct: "[" + deskWide6 + "]:7117"},
		{desk: ipv4, laptop: ipv6, over: ipv4, told: 1},
		{desk: ipv6, laptop: ipv4, over: ipv6, told: 1},
	} {
		t.Run(fmt.Sprintf("%s and %s", is.desk, is.laptop), func(t *testing.T) {
			t.Parallel()
			n := newTwoFamilies(t, is.desk, is.laptop)
			desk, laptop := n.start(n.desk, is.over), n.start(n.laptop, is.laptop)
			befriend(desk, laptop)
			arePaths := func(want client.Path) bool {
				return desk.findPath(laptop) == want && laptop.findPath(desk) == want
			}
			began := time.Now()
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for ; time.Since(began) < firstRound && (is.direct == "" || !arePaths(client.PathDirect)); <-tick.C {
				for _, pair := range [][2]*daemon{{desk, laptop}, {laptop, desk}} {
					if _, err := pair[0].Client.Ping(await.NewContext(t), client.PingParams{To: pair[1].Name}); err != nil {
						t.Fatalf("%s pings %s: %v", pair[0].Name, pair[1].Name, err)
					}
				}
			}
			want, at := client.PathDirect, is.direct
			if is.direct == "" {
				want, at = client.PathRelay, "relay:hub"
			}
			if p := laptop.FindPeer(desk.ID); !arePaths(want) || !slices.Contains(p.Addrs, at) {
				t.Errorf("after %s the paths are %q and %q; the laptop reaches the desk at %q, want %s", firstRound, desk.findPath(laptop), p.Path, p.Addrs, at)
			}
			if line := fmt.Sprintf("named=%d dialled=%d\n", is.told, is.told); !strings.Contains(laptop.Acpd.Stderr.String(), line) {
				t.Errorf("the laptop has not dialled %d addresses:\n%s", is.told, laptop.Acpd.Stderr.String())
			}
			speak(desk, laptop)
			for _, d := range []*daemon{desk, laptop} {
				if log := d.Acpd.Stderr.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
					t.Errorf("%s warns:\n%s", d.Name, log)
				}
			}
		})
	}
}
