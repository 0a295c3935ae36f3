//go:build netns

package discovery

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/acpd/acpd/identity"
)

func init() {
	roles["swarm"] = runSwarm
	roles["spoofer"] = runSpoofer
}

var groupAddr = &net.UDPAddr{IP: group4, Port: mdnsPort}

func invented(kind byte, n int) identity.ID {
	id := identity.ID{kind}
	binary.BigEndian.PutUint32(id[1:], uint32(n+1))
	return id
}

// shared binds the mDNS port at an address.
func shared(addr string) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) }); e != nil {
			return e
		}
		return err
	}}
	conn, err := lc.ListenPacket(context.Background(), "udp4", fmt.Sprintf("%s:%d", addr, mdnsPort))
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

func swarmAddr(i int) string { return fmt.Sprintf("10.77.1.%d", i+1) }

// runSwarm is spec.Count daemons, each at an address of its own, that do what idle
// ones do: they answer, and once a minute they announce and ask.
func runSwarm(ctx context.Context, spec hostSpec) error {
	eth, err := net.InterfaceByName("eth0")
	if err != nil {
		return err
	}
	ears, err := net.ListenMulticastUDP("udp4", eth, groupAddr)
	if err != nil {
		return err
	}
	defer ears.Close()
	var conns []*net.UDPConn
	var packets [][]byte
	for i := range spec.Count {
		conn, err := shared(swarmAddr(i))
		if err != nil {
			return err
		}
		conns = append(conns, conn)
		packets = append(packets, newRecords(invented(0x55, i), "swarm", []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr(swarmAddr(i)), 7117)}).packet(lifetime))
	}
	go func() {
		for buf := make([]byte, maxPacket); ; {
			n, from, err := ears.ReadFromUDP(buf)
			if err != nil {
				return
			}
			if buf[2]&0x80 == 0 && strings.Contains(string(buf[:n]), "\x04_acp\x04_udp") && !strings.HasPrefix(from.IP.String(), "10.77.1.") {
				for i, conn := range conns {
					conn.WriteTo(packets[i], from)
				}
			}
		}
	}()
	// They ask from ports of their own, and are not interested in the answers here.
	asker, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(10, 77, 0, 9)})
	if err != nil {
		return err
	}
	defer asker.Close()
	print(line{Event: "start"})
	tick := time.NewTicker(time.Minute / time.Duration(spec.Count))
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % spec.Count {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			conns[i].WriteTo(packets[i], groupAddr)
			asker.WriteTo(question(service, dns.TypePTR), groupAddr)
		}
	}
}

// runSpoofer says what is not true, as fast as it can.
func runSpoofer(ctx context.Context, spec hostSpec) error {
	conn, err := shared("10.77.0.3")
	if err != nil {
		return err
	}
	far, err := shared("192.0.2.9")
	if err != nil {
		return err
	}
	at := func(id identity.ID, addrs ...string) *records {
		var list []netip.AddrPort
		for _, a := range addrs {
			list = append(list, netip.MustParseAddrPort(a))
		}
		return newRecords(id, "spoofed", list)
	}
	victim := spec.Trusted[0]
	for i := range spec.Count {
		conn.WriteTo(at(invented(0x66, i), "10.77.0.3:7117").packet(lifetime), groupAddr)
		far.WriteTo(at(invented(0x77, i), "10.77.0.3:7117").packet(lifetime), groupAddr)
		broken := at(invented(0x88, i), "10.77.0.3:7117").packet(lifetime)
		for range 8 {
			broken[rand.N(len(broken))] = byte(rand.Uint32())
		}
		conn.WriteTo(broken[:rand.N(len(broken))], groupAddr)
		if i%1000 == 0 {
			conn.WriteTo(at(victim, "10.77.0.66:1", "10.77.0.67:1", "10.77.0.68:1", "10.77.0.69:1", "10.77.0.70:1", "10.77.0.71:1", "10.77.0.72:1", "10.77.0.73:1", "198.51.100.1:1").packet(lifetime), groupAddr)
			conn.WriteTo(at(victim, "10.77.0.2:7117").packet(0), groupAddr)
		}
		if i%10 == 0 {
			select {
			case <-time.After(time.Millisecond): // about 10,000 services in 1 s and more
			case <-ctx.Done():
				return nil
			}
		}
	}
	print(line{Event: "done"})
	<-ctx.Done()
	return nil
}

func TestSwarm(t *testing.T) {
	l := newLab(t, "lan")
	l.space("a")
	l.wire("a", "eth0", "lan", "10.77.0.1/16")
	l.space("s")
	const count = 200
	l.wire("s", "eth0", "lan", "10.77.0.9/16")
	for i := range count {
		l.addr("s", "eth0", swarmAddr(i)+"/16")
	}
	s := l.start("s", hostSpec{Role: "swarm", Count: count})
	s.await(s.started, 10*time.Second, "start", func(l line) bool { return l.Event == "start" })
	a := l.start("a", hostSpec{})
	seen := 0
	all := a.await(a.started, 5*time.Second, "all of them", func(l line) bool {
		if l.Event == "discovered" {
			seen++
		}
		return seen == count
	})
	<-time.After(5 * time.Second) // what follows is measured over time
	before := a.usage(identity.ID{})
	<-time.After(2 * time.Minute)
	after := a.usage(identity.ID{})
	cpu := float64(after.CPU-before.CPU) / 1e6 / after.At.Sub(before.At).Seconds() * 100
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	for l := range strings.Lines(string(status)) {
		if strings.HasPrefix(l, "VmRSS") {
			t.Log(strings.TrimSpace(l))
		}
	}
	t.Logf("200 services after %v; idle CPU %.3f %%; heap %d KiB; %d peers after 2 min", all.At.Sub(a.started), cpu, after.Heap>>10, after.Peers)
	if after.Peers != count || cpu > 0.3 {
		t.Error("want all of them and at most 0.3 % of CPU")
	}
	if n := a.count(func(l line) bool { return l.Event == "lost" || l.Event == "moved" }); n > 0 {
		t.Errorf("%d lost or moved", n)
	}
}

func TestSpoofer(t *testing.T) {
	l := threeHosts(t, "IPv4")
	l.addr("c", "eth0", "192.0.2.9/24")
	b := l.start("b", hostSpec{})
	trusted := b.spec.Self
	a := l.start("a", hostSpec{Trusted: []identity.ID{trusted}, Static: map[string]string{trusted.String(): "planner.example:7117"}})
	stranger := l.start("a", hostSpec{Port: 7118})
	a.sees(b, "10.77.0.2:7117", a.started, 3*time.Second)
	a.sees(stranger, "", stranger.started, 3*time.Second)
	before := a.usage(trusted)
	c := l.start("c", hostSpec{Role: "spoofer", Trusted: []identity.ID{trusted}, Count: 10000})
	done := c.await(c.started, 60*time.Second, "end of the flood", func(l line) bool { return l.Event == "done" })
	<-time.After(2 * time.Second) // a goodbye that was believed would show by now
	after := a.usage(trusted)
	t.Logf("flood of %v: %v of CPU, heap %d KiB (before %d), %d peers, %d changes; the trusted one at %v", done.At.Sub(c.started),
		time.Duration(after.CPU-before.CPU)*time.Microsecond, after.Heap>>10, before.Heap>>10, after.Peers,
		a.count(func(l line) bool { return l.Event == "discovered" || l.Event == "moved" || l.Event == "lost" }), after.Addrs)
	if after.Peers > maxStrangers+1 || after.Heap > 8<<20 {
		t.Error("not bounded")
	}
	if len(after.Addrs) == 0 || after.Addrs[0] != "planner.example:7117" {
		t.Error("the configured address is not first")
	}
	found := false
	for _, addr := range after.Addrs {
		found = found || addr == "10.77.0.2:7117"
		if strings.HasPrefix(addr, "198.") {
			t.Errorf("an address from afar: %s", addr)
		}
	}
	if !found {
		t.Error("the true address is lost")
	}
	a.none("loss of a real peer", func(l line) bool {
		return l.Event == "lost" && (l.ID == trusted.String() || l.ID == stranger.spec.Self.String())
	})
	a.none("peer from another network", func(l line) bool { return strings.HasPrefix(l.ID, "77") })
	d := l.start("b", hostSpec{Port: 7119})
	t.Logf("a newcomer is seen after %v", a.sees(d, "", d.started, 3*time.Second))
}
