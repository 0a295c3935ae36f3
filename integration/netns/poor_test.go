//go:build netns

package netns

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// TestPoorNetworks: what a network can lack is one warning at most, and peers with
// configured addresses talk all the same. That all others have no default route is
// their lab's doing.
func TestPoorNetworks(t *testing.T) {
	t.Parallel()
	// talk has two daemons trust each other at given addresses, and ping.
	talk := func(a, b *daemon) {
		a.T.Helper()
		live.Befriend(a.Machine, b.Machine)
		a.StartAcpctl("ping", b.Name, "-c", "1").AwaitExit(0)
		b.StartAcpctl("ping", a.Name, "-c", "1").AwaitExit(0)
	}
	t.Run("loopback alone", func(t *testing.T) {
		t.Parallel()
		h := newLab(t).host("desk")
		first, second := h.acpd("first"), h.acpd("second")
		first.sees(second.ID, second.Addr, second.Acpd.Begun, await.Patience)
		second.sees(first.ID, first.Addr, second.Acpd.Begun, await.Patience)
		first.warns(1, first.Acpd.Begun, await.Patience) // nobody on another host is found
		second.warns(1, second.Acpd.Begun, await.Patience)
		talk(first, second)
		first.warned(1)
		second.warned(1)
		far := identity.ID{0xfa, 31: 1}
		first.StartAcpctl("trust", far.String(), "--name", "far", "--addr", "192.0.2.1:7117").AwaitExit(0)
		away := first.StartAcpctl("query", "far", "there?")
		if away.AwaitExit(5); !strings.Contains(away.Stderr.String(), "no route to 192.0.2.1:7117; check its network") {
			t.Errorf("without a network: %s", away.Stderr.String())
		}
	})
	t.Run("the network comes later", func(t *testing.T) {
		t.Parallel()
		l, h := lan(t, both, "desk")
		late := l.host("late")
		desk, laptop := h[0].acpd("desk"), late.acpd("laptop")
		laptop.warns(1, laptop.Acpd.Begun, await.Patience)
		at := time.Now()
		late.wire("eth0", "lan", "10.77.0.2/24", "fd77::2/64")
		t.Logf("sees after %s, is seen after %s", laptop.sees(desk.ID, "10.77.0.1:7117", at, rewired+slack), desk.sees(laptop.ID, "10.77.0.2:7117", at, rewired+slack))
		befriend(desk, laptop)
		laptop.warned(1)
	})
	t.Run("narrow link", func(t *testing.T) {
		t.Parallel()
		l, h := lan(t, both, "desk", "laptop")
		// As behind a tunnel: what is too large is lost without a word.
		l.bridge.ip("link set " + h[1].port("eth0") + " mtu 1280")
		desk, laptop := h[0].acpd("desk"), h[1].acpd("laptop")
		befriend(desk, laptop)
		laptop.Serve("cat", "--prompt", "--", "cat")
		const size = 900_000
		payload := `{"question":"` + strings.Repeat("x", size) + `"}`
		if said := desk.told(payload, "query", "laptop", "--payload", "-").AwaitExit(0); len(said) < size {
			t.Errorf("%d bytes came back", len(said))
		}
	})
	t.Run("no multicast", func(t *testing.T) {
		t.Parallel()
		_, h := lan(t, both, "desk", "laptop")
		for _, host := range h {
			host.ip("link set eth0 multicast off")
		}
		desk, laptop := h[0].acpd("desk"), h[1].acpd("laptop")
		desk.warns(1, desk.Acpd.Begun, await.Patience)
		laptop.warns(1, laptop.Acpd.Begun, await.Patience)
		talk(desk, laptop)
		desk.warned(1)
		laptop.warned(1)
		// It may come later.
		at := time.Now()
		for _, host := range h {
			host.ip("link set eth0 multicast on")
		}
		tablet := h[0].acpd("tablet")
		t.Logf("with multicast: sees after %s, is seen after %s", laptop.sees(tablet.ID, "", at, rewired+slack), tablet.sees(laptop.ID, "", at, rewired+slack))
		laptop.warned(1)
	})
	t.Run("no multicast route", func(t *testing.T) {
		t.Parallel()
		_, h := lan(t, ipv4, "desk", "laptop")
		for _, host := range h {
			host.ip("route add prohibit 224.0.0.0/4")
		}
		desk, laptop := h[0].acpd("desk"), h[1].acpd("laptop")
		desk.sees(laptop.ID, "", laptop.Acpd.Begun, await.Patience) // what is sent names its interface
		laptop.sees(desk.ID, "", laptop.Acpd.Begun, await.Patience)
		talk(desk, laptop)
		desk.warned(0)
		laptop.warned(0)
	})
	t.Run("port taken", func(t *testing.T) {
		t.Parallel()
		_, h := lan(t, ipv4, "desk", "laptop")
		var hog net.PacketConn
		if err := h[0].in(func() (err error) { hog, err = net.ListenPacket("udp4", ":5353"); return err }); err != nil {
			t.Fatal(err)
		}
		defer hog.Close()
		laptop, desk := h[1].acpd("laptop"), h[0].acpd("desk")
		desk.warns(1, desk.Acpd.Begun, await.Patience)
		desk.sees(laptop.ID, "", desk.Acpd.Begun, await.Patience) // asking still works
		talk(desk, laptop)
		hog.Close()
		// Who knew of no desk hears of it when the port is tried again.
		tablet := h[1].acpd("tablet")
		t.Logf("seen after the port is free: %s", tablet.sees(desk.ID, "", time.Now(), await.Patience))
		desk.warned(1)
	})
}
