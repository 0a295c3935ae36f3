//go:build netns

package netns

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// Two hosts that do not reach each other have the bridge of their containers in common: where the guest meets
// itself it has not met the host, and says which addresses it has tried.
func TestJoinWithTheBridgeOfContainersInCommon(t *testing.T) {
	l := newLab(t, "one", "other")
	desk, laptop := l.host("desk"), l.host("laptop")
	for h, wire := range map[*host][2]string{desk: {"one", "10.77.0.1/24"}, laptop: {"other", "10.78.0.1/24"}} {
		h.wire("eth0", wire[0], wire[1])
		h.ip("link add docker0 type bridge", "addr add 172.17.0.1/16 dev docker0", "link set docker0 up", "route add default dev eth0")
	}
	d, g := desk.daemon("desk"), laptop.daemon("laptop")
	d.start("--no-mdns", "--listen", "0.0.0.0:7117")
	g.start("--no-mdns", "--listen", "0.0.0.0:7117")
	line := strings.TrimSpace(d.MustOutput("invite"))
	join := g.StartAcpctl("join", line)
	join.AwaitExit(5)
	for _, want := range []string{"10.77.0.1:7117", "at 172.17.0.1:7117 this daemon itself answers"} {
		if said := join.Stderr.String(); !strings.Contains(said, want) || strings.Contains(said, "no invitation is open") {
			t.Errorf("join says %q, want %q", said, want)
		}
	}
}

// An interface with an MTU that is too small for QUIC is told as that.
func TestSmallMTU(t *testing.T) {
	l := newLab(t, "lan")
	desk, laptop := l.host("desk"), l.host("laptop")
	desk.wire("eth0", "lan", "10.9.0.1/24")
	laptop.wire("eth0", "lan", "10.9.0.2/24")
	d, g := desk.daemon("desk"), laptop.daemon("laptop")
	d.start("--no-mdns", "--listen", "10.9.0.1:7117")
	g.start("--no-mdns", "--listen", "10.9.0.2:7117")
	desk.ip("link set eth0 mtu 1227")
	g.Trust(d.Machine)
	d.Trust(g.Machine, "10.9.0.2:7117")
	ping := d.StartAcpctl("ping", "laptop", "-c", "1")
	ping.AwaitExit(5)
	if said := ping.Stdout.String() + ping.Stderr.String(); !strings.Contains(said, "the MTU of this machine's interface to 10.9.0.2:7117 is below the 1,228 bytes (IPv4)") {
		t.Errorf("ping says %q", said)
	}
	desk.ip("link set eth0 mtu 1228")
	eventually(t, time.Now(), await.Patience, "the laptop is reached with 1,228 bytes", func() bool {
		p := d.StartAcpctl("ping", "laptop", "-c", "1")
		<-p.Ended
		return strings.Contains(p.Stdout.String(), "1 received")
	})
}
