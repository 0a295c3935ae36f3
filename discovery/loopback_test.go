package discovery

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

// Two that listen on loopback find each other there, whatever else the host has, and
// hear when the other leaves.
func TestLoopback(t *testing.T) {
	t.Parallel()
	type daemon struct {
		id   identity.ID
		addr string
		told chan Change
		stop func()
	}
	start := func(addr string) *daemon {
		d := &daemon{addr: addr, told: make(chan Change, 1024)}
		rand.Read(d.id[:]) // others on this host may run the same test
		table := NewTable(func(identity.ID) bool { return false }, func(c Change) {
			select {
			case d.told <- c:
			default:
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- RunMDNS(ctx, Config{Self: d.id, Name: "desk", Listen: netip.MustParseAddrPort(addr), Table: table, Logger: slog.New(slog.DiscardHandler)})
		}()
		d.stop = func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		return d
	}
	hears := func(d *daemon, event Event, of *daemon) Entry {
		t.Helper()
		timeout := time.After(await.Patience)
		for {
			select {
			case c := <-d.told:
				if c.Event == event && c.Entry.ID == of.id {
					return c.Entry
				}
			case <-timeout:
				t.Fatalf("%s does not hear that %s is %s", d.addr, of.addr, event)
			}
		}
	}
	a := start("127.0.0.1:7201")
	defer a.stop()
	b := start("127.0.0.1:7202")
	for _, pair := range [][2]*daemon{{a, b}, {b, a}} {
		e := hears(pair[0], Discovered, pair[1])
		if !slices.ContainsFunc(e.Addrs, func(a Addr) bool { return a.HostPort == pair[1].addr && a.Source == MDNS }) || e.Claim != "desk" || e.LastSeen.IsZero() {
			t.Errorf("%+v", e)
		}
	}
	ears := listenOnLoopback(t)
	b.stop()
	hears(a, Lost, b)
	for byes, buf := 0, make([]byte, maxPacket); byes < 2; {
		n, err := ears.Read(buf)
		if err != nil {
			t.Fatalf("%d goodbyes, want 2: %v", byes, err)
		}
		for _, said := range decodePacket(buf[:n]).found {
			if said.bye && said.instance == instanceName(b.id) {
				byes++
			}
		}
	}
}

// listenOnLoopback hears what is said to all on loopback, for 5 s.
func listenOnLoopback(t *testing.T) *net.UDPConn {
	t.Helper()
	nics, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(nics, func(n net.Interface) bool { return n.Flags&net.FlagLoopback != 0 })
	conn, err := net.ListenMulticastUDP("udp4", &nics[i], &net.UDPAddr{IP: group4, Port: mdnsPort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetReadDeadline(time.Now().Add(await.Patience))
	return conn
}
