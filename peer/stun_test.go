package peer

import (
	"bytes"
	"context"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/testutils/simnet"
)

// newSTUNResponse answers a request as a server does (RFC 8489, section 14.2), with an
// attribute before the address that nobody knows.
func newSTUNResponse(request []byte, from netip.AddrPort) []byte {
	ip := from.Addr().AsSlice()
	family := byte(1)
	if len(ip) == 16 {
		family = 2
	}
	value := append([]byte{0, family, byte(from.Port()>>8) ^ 0x21, byte(from.Port()) ^ 0x12}, ip...)
	for i := range ip {
		value[4+i] ^= request[4+i]
	}
	body := append([]byte{0x80, 0x22, 0, 5, 'o', 't', 'h', 'e', 'r', 0, 0, 0, 0, 0x20, 0, byte(len(value))}, value...)
	head := append([]byte{1, 1, 0, byte(len(body))}, request[4:20]...)
	return append(head, body...)
}

func isSTUNRequest(b []byte) bool {
	return len(b) == stunHeader && bytes.Equal(b[:8], []byte{0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42})
}

// serveSTUN answers on a socket until that is closed. It passes over the first requests.
func serveSTUN(socket net.PacketConn, passOver int) (requests *atomic.Int32) {
	requests = new(atomic.Int32)
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFrom(buf)
			if err != nil {
				return
			}
			if isSTUNRequest(buf[:n]) && int(requests.Add(1)) > passOver {
				socket.WriteTo(newSTUNResponse(buf[:n], toAddrPort(from)), from)
			}
		}
	}()
	return requests
}

// The response of RFC 5769, sections 2.2 and 2.3; RFC 8489 names these as its test vectors.
func TestSTUNKnownAnswers(t *testing.T) {
	for text, want := range map[string]string{
		"0101003c 2112a442b7e7a701bc34d686fa87dfae 8022000b 7465737420766563746f7220 00200008 0001a147e112a643 00080014 2b91f599fd9e90c38c7489f92af9ba53f06be7d7 80280004 c07d4c96":                         "192.0.2.1:32853",
		"01010048 2112a442b7e7a701bc34d686fa87dfae 8022000b 7465737420766563746f7220 00200014 0002a1470113a9faa5d3f179bc25f4b5bed2b9d9 00080014 a382954e4be67bf11784c97c8292c275bfe3ed41 80280004 c8fb0b4c": "[2001:db8:1234:5678:11:2233:4455:6677]:32853",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		id, mapped, ok := parseSTUNResponse(b)
		if !ok || mapped.String() != want || hex.EncodeToString(id[:]) != "b7e7a701bc34d686fa87dfae" {
			t.Errorf("%x, %s, %v: expected %s", id, mapped, ok, want)
		}
	}
}

func TestSTUNResponsesThatAreNone(t *testing.T) {
	request := newSTUNRequest(stunID{1})
	good := newSTUNResponse(request, netip.MustParseAddrPort("192.0.2.1:7117"))
	for name, spoil := range map[string]func([]byte) []byte{
		"empty":             func(b []byte) []byte { return nil },
		"cut":               func(b []byte) []byte { return b[:len(b)-1] },
		"longer":            func(b []byte) []byte { return append(b, 0) },
		"another cookie":    func(b []byte) []byte { b[4]++; return b },
		"the request":       func(b []byte) []byte { return request },
		"an error response": func(b []byte) []byte { b[1] = 0x11; return b },
		"no address":        func(b []byte) []byte { b[33] = 0x21; return b },
		"unknown family":    func(b []byte) []byte { b[37] = 3; return b },
		"family of IPv6":    func(b []byte) []byte { b[37] = 2; return b },
		"attribute too long": func(b []byte) []byte {
			b[23] = 200
			return b
		},
		"port 0":      func(b []byte) []byte { return newSTUNResponse(request, netip.MustParseAddrPort("192.0.2.1:0")) },
		"unspecified": func(b []byte) []byte { return newSTUNResponse(request, netip.MustParseAddrPort("0.0.0.0:1")) },
	} {
		if _, mapped, ok := parseSTUNResponse(spoil(bytes.Clone(good))); ok {
			t.Errorf("%s: passes as %s", name, mapped)
		}
	}
}

func FuzzParseSTUNResponse(f *testing.F) {
	f.Add(newSTUNResponse(newSTUNRequest(stunID{1}), netip.MustParseAddrPort("192.0.2.1:7117")))
	f.Add(newSTUNResponse(newSTUNRequest(stunID{2}), netip.MustParseAddrPort("[2001:db8::1]:7117")))
	f.Add([]byte("\x01\x01\x00\x04\x21\x12\xa4\x42............\x00\x20\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		id, mapped, ok := parseSTUNResponse(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the packet was changed")
		}
		if !ok {
			return
		}
		if !mapped.IsValid() || mapped.Addr().IsUnspecified() || mapped.Addr().Is4In6() {
			t.Fatalf("passes as %s", mapped)
		}
		again, same, ok := parseSTUNResponse(newSTUNResponse(newSTUNRequest(id), mapped))
		if !ok || again != id || same != mapped {
			t.Fatalf("%s reads as %s, %v", mapped, same, ok)
		}
	})
}

// TestSTUNOnTheSocketOfQUIC asks on a socket of the system, on which a listener of QUIC runs
// too, in both families.
func TestSTUNOnTheSocketOfQUIC(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(at, func(t *testing.T) {
			server, err := net.ListenPacket("udp", at)
			if err != nil && at == "[::1]:0" {
				t.Skipf("this machine has no IPv6: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			serveSTUN(server, 0)
			n := newSide(t, func(c *Config) { c.Listen, c.STUN = at, []string{server.LocalAddr().String()} }).serve()
			found := n.stun.listReflexiveAddrs(t.Context())
			if len(found) != 1 || found[0] != toAddrPort(n.Addr()) {
				t.Errorf("found %v, the socket is at %s", found, n.Addr())
			}
		})
	}
}

// askSTUN has a socket that QUIC reads ask servers; each answers as its function says.
func askSTUN(t *testing.T, servers map[string]func(*network, net.PacketConn)) (found []netip.AddrPort, took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetwork(t, nil)
		own := w.conn(w.addr())
		tr := &quic.Transport{Conn: own}
		defer own.Close()
		defer tr.Close()
		var names []string
		for at, serve := range servers {
			socket := w.conn(net.UDPAddrFromAddrPort(netip.MustParseAddrPort(at)))
			defer socket.Close()
			serve(w, socket)
			names = append(names, at)
		}
		w.start()
		began := time.Now()
		client := &stunClient{servers: names, socket: tr}
		found = client.listReflexiveAddrs(t.Context())
		took = time.Since(began)
		if again := client.listReflexiveAddrs(t.Context()); len(again) != len(found) || time.Since(began) != took {
			t.Errorf("asked at once again, it took %v and found %v", time.Since(began)-took, again)
		}
		client.forget()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if client.listReflexiveAddrs(over); !client.asked.IsZero() || time.Since(began) != took {
			t.Error("what a caller got who gave up is taken for the servers' answer")
		}
	})
	return found, took
}

func TestSTUNQuery(t *testing.T) {
	good := func(passOver int) func(*network, net.PacketConn) {
		return func(_ *network, socket net.PacketConn) { serveSTUN(socket, passOver) }
	}
	silent := func(*network, net.PacketConn) {}
	// It answers with another id than the one that was asked for.
	lying := func(_ *network, socket net.PacketConn) {
		go func() {
			buf := make([]byte, 1500)
			n, from, err := socket.ReadFrom(buf)
			if err != nil {
				return
			}
			response := newSTUNResponse(buf[:n], netip.MustParseAddrPort("198.51.100.1:1"))
			response[8]++
			socket.WriteTo(response, from)
			socket.WriteTo([]byte("no STUN"), from)
		}()
	}
	// A host answers that knows the id, and was not asked.
	answeredByAnother := func(w *network, socket net.PacketConn) {
		go func() {
			buf := make([]byte, 1500)
			n, from, err := socket.ReadFrom(buf)
			if err == nil {
				w.sim.Router.SendPacket(simnet.Packet{
					From: &net.UDPAddr{IP: net.IPv4(192, 0, 2, 101).To4(), Port: 3478}, To: from,
					Data: newSTUNResponse(buf[:n], netip.MustParseAddrPort("198.51.100.1:1")),
				})
			}
		}()
	}
	const rtt = 2 * latency
	for name, c := range map[string]struct {
		servers map[string]func(*network, net.PacketConn)
		found   int
		took    time.Duration
	}{
		"answered":              {map[string]func(*network, net.PacketConn){"192.0.2.100:3478": good(0)}, 1, rtt},
		"two, one address":      {map[string]func(*network, net.PacketConn){"192.0.2.100:3478": good(0), "192.0.2.101:3478": good(0)}, 1, rtt},
		"one of two is silent":  {map[string]func(*network, net.PacketConn){"192.0.2.100:3478": good(0), "192.0.2.101:3478": silent}, 1, rtt + stunGrace},
		"the first packet lost": {map[string]func(*network, net.PacketConn){"192.0.2.100:3478": good(1)}, 1, stunWaits[0] + rtt},
		"silent":                {map[string]func(*network, net.PacketConn){"192.0.2.100:3478": silent}, 0, stunTime},
		"another id":            {map[string]func(*network, net.PacketConn){"192.0.2.100:3478": lying}, 0, stunTime},
		"of another host":       {map[string]func(*network, net.PacketConn){"192.0.2.100:3478": answeredByAnother}, 0, stunTime},
		"none":                  {nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			found, took := askSTUN(t, c.servers)
			if len(found) != c.found || took != c.took {
				t.Errorf("found %v after %v, expected %d after %v", found, took, c.found, c.took)
			}
			for _, a := range found {
				if a.String() != "192.0.2.1:7117" {
					t.Errorf("found %v", a)
				}
			}
		})
	}
}

// TestAddrsChangedForgetsSTUN has a node ask again after its addresses have changed, and only then.
func TestAddrsChangedForgetsSTUN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetwork(t, nil)
		server := w.conn(net.UDPAddrFromAddrPort(netip.MustParseAddrPort(stunServer)))
		defer server.Close()
		requests := serveSTUN(server, 0)
		n := w.side(func(c *Config) { c.STUN = []string{stunServer} })
		w.serve(n)
		for want := range int32(2) {
			n.AddrsChanged() // which it hears for the first time
			synctest.Wait()
			for range 3 {
				n.stun.listReflexiveAddrs(t.Context())
			}
			n.AddrsChanged() // they are the same
			synctest.Wait()
			n.stun.listReflexiveAddrs(t.Context())
			if got := requests.Load(); got != want+1 {
				t.Errorf("asked %d times, expected %d", got, want+1)
			}
			n.mu.Lock()
			n.localPaths = nil // as if it had been another one
			n.mu.Unlock()
		}
	})
}

// AskSTUN tells NATs that keep one port from those that take another for each server.
func TestAskSTUNBehindNATs(t *testing.T) {
	for kind, ports := range map[natKind]int{portKeeping: 1, symmetric: 2, noNAT: 1} {
		const second = "203.0.113.2:3478"
		synctest.Test(t, func(t *testing.T) {
			l := newNATLab(t, natPair{kind, portKeeping}, latency, func(c *Config) { c.STUN = []string{stunServer, second} })
			server := l.socket(second)
			serveSTUN(server, 0)
			l.run()
			defer server.Close()
			answers := l.a.AskSTUN(t.Context())
			seen := make(map[netip.AddrPort]bool)
			for _, a := range answers {
				seen[a.Mapped] = true
			}
			if len(answers) != 2 || answers[0].Server == answers[1].Server || len(seen) != ports {
				t.Errorf("%s: %v, want %d addresses", kind, answers, ports)
			}
		})
	}
}
