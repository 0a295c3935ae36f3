//go:build netns

package discovery

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
)

var families = map[string][3][]string{
	"IPv4":       {{"10.77.0.1/24"}, {"10.77.0.2/24"}, {"10.77.0.3/24"}},
	"IPv6":       {{"fd77::1/64"}, {"fd77::2/64"}, {"fd77::3/64"}},
	"both":       {{"10.77.0.1/24", "fd77::1/64"}, {"10.77.0.2/24", "fd77::2/64"}, {"10.77.0.3/24", "fd77::3/64"}},
	"link-local": {},
}

func threeHosts(t testing.TB, family string) *lab {
	l := newLab(t, "lan")
	for i, host := range []string{"a", "b", "c"} {
		l.space(host)
		if family == "IPv4" {
			l.sysctl(host, "net/ipv6/conf/all/disable_ipv6", "1")
			l.sysctl(host, "net/ipv6/conf/default/disable_ipv6", "1")
		}
		l.wire(host, "eth0", "lan", families[family][i]...)
	}
	return l
}

// Fifty times a daemon starts beside two others: how long until each has seen the
// other, and after its end, how long it stays.
func TestFirstSight(t *testing.T) {
	for family := range families {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			l := threeHosts(t, family)
			a, c := l.start("a", hostSpec{}), l.start("c", hostSpec{})
			a.sees(c, "", a.started, 5*time.Second)
			c.sees(a, "", a.started, 5*time.Second)
			var sights, byes []time.Duration
			for range 50 {
				b := l.start("b", hostSpec{})
				for _, o := range []*process{a, c} {
					sights = append(sights, max(b.sees(o, "", b.started, 5*time.Second), o.sees(b, "", b.started, 5*time.Second)))
				}
				at := b.stop()
				byes = append(byes, max(a.loses(b, at, 5*time.Second), c.loses(b, at, 5*time.Second)))
			}
			sight, bye := percentile(sights, 95), percentile(byes, 95)
			t.Logf("first sight p95 %v, goodbye p95 %v", sight, bye)
			if sight > 2*time.Second || bye > 2*time.Second {
				t.Error("over 2 s")
			}
			for _, p := range []*process{a, c} {
				p.none("warning", isLog)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	l := threeHosts(t, "both")
	a, b := l.start("a", hostSpec{}), l.start("b", hostSpec{})
	a.sees(b, "10.77.0.2:7117", b.started, 3*time.Second)
	a.sees(b, "[fd77::2]:7117", b.started, 3*time.Second)

	at := time.Now()
	l.addr("b", "eth0", "10.77.0.22/24")
	t.Logf("new address after %v", a.sees(b, "10.77.0.22:7117", at, 3*time.Second))

	at = time.Now()
	l.ip("b", "addr", "del", "10.77.0.2/24", "dev", "eth0")
	l.addr("b", "eth0", "10.77.0.23/24")
	t.Logf("other address after %v", a.sees(b, "10.77.0.23:7117", at, 3*time.Second))

	at = time.Now()
	l.ip("b", "link", "set", "eth0", "down")
	l.ip("b", "link", "set", "eth0", "up")
	c := l.start("c", hostSpec{})
	t.Logf("down and up: sees and is seen after %v, %v", b.sees(c, "", at, 10*time.Second), c.sees(b, "", at, 10*time.Second))
	c.stop()

	l.ip("b", "link", "del", "eth0")
	b.await(time.Now(), 3*time.Second, "warning", isLog)
	l.wire("b", "eth0", "lan", "10.77.0.24/24", "fd77::24/64")
	at = time.Now()
	t.Logf("re-created interface: seen after %v", a.sees(b, "10.77.0.24:7117", at, 10*time.Second))
	c = l.start("c", hostSpec{})
	t.Logf("and sees after %v", b.sees(c, "", c.started, 10*time.Second))
	if n := b.count(isLog); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	l := threeHosts(t, "both")
	a, b := l.start("a", hostSpec{}), l.start("b", hostSpec{})
	a.sees(b, "", b.started, 3*time.Second)
	at := time.Now()
	b.cmd.Process.Kill()
	gone := a.loses(b, at, 95*time.Second)
	t.Logf("killed: lost after %v", gone)
	if gone > 91*time.Second {
		t.Error("over 90 s")
	}
}

func TestTwoBridges(t *testing.T) {
	l := newLab(t, "lan1", "lan2")
	for _, h := range []string{"a", "b", "c"} {
		l.space(h)
	}
	l.wire("a", "eth0", "lan1", "10.1.0.1/24")
	l.wire("b", "eth0", "lan1", "10.1.0.2/24")
	l.wire("b", "eth1", "lan2", "10.2.0.2/24")
	l.wire("c", "eth0", "lan2", "10.2.0.3/24")
	a, b, c := l.start("a", hostSpec{}), l.start("b", hostSpec{}), l.start("c", hostSpec{})
	a.sees(b, "10.1.0.2:7117", b.started, 3*time.Second)
	c.sees(b, "10.2.0.2:7117", b.started, 3*time.Second)
	b.sees(a, "10.1.0.1:7117", b.started, 3*time.Second)
	b.sees(c, "10.2.0.3:7117", b.started, 3*time.Second)
	if got := a.usage(b.spec.Self).Addrs; len(got) == 0 || got[0] != "10.1.0.2:7117" && got[0][:5] != "[fe80" {
		t.Errorf("a has %v first, want what is on its link", got)
	}
	a.none("sight of c", func(l line) bool { return l.ID == c.spec.Self.String() })
	at := b.stop()
	a.loses(b, at, 2*time.Second)
	c.loses(b, at, 2*time.Second)
}

func TestOneHost(t *testing.T) {
	l := threeHosts(t, "both")
	a, b := l.start("a", hostSpec{}), l.start("a", hostSpec{Port: 7118, Name: "b"})
	t.Logf("first sight %v, %v", a.sees(b, "10.77.0.1:7118", b.started, 3*time.Second), b.sees(a, "10.77.0.1:7117", b.started, 3*time.Second))
	c := l.start("c", hostSpec{})
	for _, p := range []*process{a, b} {
		c.sees(p, "", c.started, 3*time.Second)
		p.sees(c, "", c.started, 3*time.Second)
	}
	a.loses(b, b.stop(), 2*time.Second)
	a.none("warning", isLog)
}

// Who listens on loopback is found by the daemons of its host and by nobody else.
func TestListensOnLoopback(t *testing.T) {
	t.Parallel()
	l := threeHosts(t, "both")
	b := l.start("b", hostSpec{})
	a1 := l.start("a", hostSpec{Listen: "127.0.0.1:7118"})
	a2 := l.start("a", hostSpec{})
	a3 := l.start("a", hostSpec{Listen: "127.0.0.1:7119"})
	a3.sees(a1, "127.0.0.1:7118", a3.started, 3*time.Second)
	a1.sees(a3, "127.0.0.1:7119", a3.started, 3*time.Second)
	a1.sees(a2, "10.77.0.1:7117", a2.started, 3*time.Second)
	a2.sees(a1, "127.0.0.1:7118", a2.started, 3*time.Second)
	b.sees(a2, "", a2.started, 3*time.Second)
	for _, a := range []*process{a1, a3} {
		b.none("sight of it", func(l line) bool { return l.ID == a.spec.Self.String() })
		a.none("sight of b", func(l line) bool { return l.ID == b.spec.Self.String() })
		a.none("warning", isLog)
	}
	a2.loses(a1, a1.stop(), 2*time.Second)
}

// What a network can lack: each is one warning at most, and never an end.
func TestPoorNetworks(t *testing.T) {
	t.Run("no interface", func(t *testing.T) {
		l := newLab(t)
		l.space("a")
		id := identity.ID{1}
		a := l.start("a", hostSpec{Static: map[string]string{id.String(): "planner.example:7117"}})
		a.await(a.started, 5*time.Second, "warning", isLog)
		if got := a.usage(id).Addrs; len(got) != 1 {
			t.Errorf("static addresses: %v", got)
		}
		a.stop()
		if n := a.count(isLog); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
	})
	t.Run("loopback alone", func(t *testing.T) {
		l := newLab(t)
		l.space("a")
		a, b := l.start("a", hostSpec{}), l.start("a", hostSpec{Port: 7118})
		a.sees(b, "127.0.0.1:7118", b.started, 3*time.Second)
		b.sees(a, "127.0.0.1:7117", b.started, 3*time.Second)
		if n := a.count(isLog); n != 1 {
			t.Errorf("%d warnings, want 1: nobody on another host is found", n)
		}
	})
	t.Run("no multicast", func(t *testing.T) {
		l := newLab(t, "lan")
		l.space("a")
		l.wire("a", "eth0", "lan", "10.77.0.1/24")
		l.ip("a", "link", "set", "eth0", "multicast", "off")
		a := l.start("a", hostSpec{})
		a.await(a.started, 5*time.Second, "warning", isLog)
		at := time.Now()
		l.ip("a", "link", "set", "eth0", "multicast", "on")
		l.space("b")
		l.wire("b", "eth0", "lan", "10.77.0.2/24")
		b := l.start("b", hostSpec{})
		a.sees(b, "", at, 10*time.Second)
	})
	t.Run("port taken", func(t *testing.T) {
		l := threeHosts(t, "IPv4")
		hog := l.start("a", hostSpec{Role: "hog"})
		hog.await(hog.started, 5*time.Second, "start", func(l line) bool { return l.Event == "start" })
		b := l.start("b", hostSpec{})
		a := l.start("a", hostSpec{})
		t.Log(a.await(a.started, 5*time.Second, "warning", isLog).Text)
		a.sees(b, "", a.started, 5*time.Second) // asking still works
		hog.cmd.Process.Signal(syscall.SIGTERM)
		b.sees(a, "", time.Now(), 40*time.Second)
		if n := a.count(isLog); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
	})
}

// A copy of the key elsewhere is told once and is no peer.
func TestClone(t *testing.T) {
	l := threeHosts(t, "both")
	a := l.start("a", hostSpec{})
	a.await(a.started, 5*time.Second, "start", func(l line) bool { return l.Event == "start" })
	b := l.start("b", hostSpec{Self: a.spec.Self})
	a.await(b.started, 5*time.Second, "warning", isLog)
	b.await(b.started, 5*time.Second, "warning", isLog)
	for _, p := range []*process{a, b} {
		p.none("peer", func(l line) bool { return l.Event == "discovered" })
	}
}

func init() { roles["hog"] = runHog }

// runHog holds the port without sharing it.
func runHog(ctx context.Context, _ hostSpec) error {
	conn, err := net.ListenPacket("udp4", ":5353")
	if err != nil {
		return err
	}
	print(line{Event: "start"})
	<-ctx.Done()
	return conn.Close()
}
