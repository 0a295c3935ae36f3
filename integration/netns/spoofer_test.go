//go:build netns

package netns

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

// trap is an address at which nobody should call.
type trap struct {
	conn *net.UDPConn
	mu   sync.Mutex // guards the rest
	dial map[string]time.Time
	all  int
}

// trap counts the dials that come to an address: packets that begin a connection
// (RFC 9000, section 17.2), told apart by the id that their sender chose.
func (h *host) trap(addr string) *trap {
	h.l.t.Helper()
	c := &trap{conn: h.udp(addr), dial: make(map[string]time.Time)}
	var running sync.WaitGroup
	h.l.t.Cleanup(running.Wait)
	h.l.t.Cleanup(func() { c.conn.Close() })
	running.Go(func() {
		for buf := make([]byte, 2048); ; {
			n, _, err := c.conn.ReadFrom(buf)
			if err != nil {
				return
			}
			c.mu.Lock()
			c.all++
			const initial = 0xc0
			if n > 6 && buf[0]&0xf0 == initial && buf[4] == 1 {
				if id := string(buf[6:min(n, 6+int(buf[5]))]); c.dial[id].IsZero() {
					c.dial[id] = time.Now()
				}
			}
			c.mu.Unlock()
		}
	})
	return c
}

// calls returns when the dials came, and how many packets did.
func (c *trap) calls() (dials []time.Time, packets int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.dial {
		dials = append(dials, at)
	}
	slices.SortFunc(dials, time.Time.Compare)
	return dials, c.all
}

// spoofer says what is not true, from the link and as if from afar.
type spoofer struct {
	t         *testing.T
	near, far *net.UDPConn
}

func (s *spoofer) claim(id identity.ID, ttl uint32, addrs ...string) {
	s.near.WriteTo(announcement(s.t, id, "spoofed", ttl, addrs...), group)
}

// flood invents services as fast as it can; in between it says of a victim that it
// is elsewhere, and that it has gone.
func (s *spoofer) flood(count int, victim identity.ID, elsewhere []string) {
	const here = "10.77.0.3:7117"
	for i := range count {
		s.claim(invented(0x66, i), 75, here)
		s.far.WriteTo(announcement(s.t, invented(0x77, i), "spoofed", 75, here), group)
		broken := announcement(s.t, invented(0x88, i), "spoofed", 75, here)
		for range 8 {
			broken[rand.N(len(broken))] = byte(rand.Uint32())
		}
		s.near.WriteTo(broken[:rand.N(len(broken))], group)
		if i%1000 == 0 {
			s.claim(victim, 75, elsewhere...)
			s.claim(victim, 0, "10.77.0.2:7117")
		}
		if i%10 == 0 {
			<-time.After(time.Millisecond)
		}
	}
}

// TestSpoofer: whoever shouts on the network what, friends stay connected, and
// acpd's memory and its calls stay bounded. It runs alone, for it needs both
// processors.
func TestSpoofer(t *testing.T) {
	const count, strangers = 10_000, 256
	_, h := lan(t, ipv4, "desk", "laptop", "spoofer")
	// The spoofer's host is also the way to everywhere else.
	h[2].ip("addr add 192.0.2.9/24 dev eth0", "addr add 198.51.100.1/32 dev lo")
	h[0].ip("route add default via 10.77.0.3")
	foreign := []string{"198.51.100.1:4242"}
	for i := range 7 {
		addr := fmt.Sprintf("10.77.0.%d", 66+i)
		h[2].addrs("eth0", addr+"/24")
		foreign = append(foreign, addr+":4242")
	}
	traps := make(map[string]*trap)
	for _, addr := range append(slices.Clone(foreign), "10.77.0.3:7117") {
		c := h[2].trap(addr)
		h[0].udp("10.77.0.1:0").WriteTo([]byte{0}, c.conn.LocalAddr())
		eventually(t, time.Now(), await.Patience, "a packet to "+addr, func() bool { _, n := c.calls(); return n == 1 })
		traps[addr] = c
	}
	desk, laptop, tablet := h[0].acpd("desk"), h[1].acpd("laptop"), h[1].acpd("tablet")
	desk.sees(tablet.ID, "", tablet.Acpd.Begun, await.Patience)
	befriend(desk, laptop)
	laptop.Serve("cat", "--prompt", "--", "cat")
	rss := desk.memory()
	downs := desk.heard(client.EventDown, laptop.ID)

	begun := time.Now()
	spoofer := &spoofer{t, h[2].udp("10.77.0.3:5353"), h[2].udp("192.0.2.9:5353")}
	spoofer.flood(count, laptop.ID, foreign)
	if said := desk.StartAcpctl("query", "laptop", "still there?").AwaitExit(0); said != "still there?\n" {
		t.Errorf("got %q", said)
	}
	<-time.After(2 * time.Second) // a goodbye that was believed would show by now
	now := desk.memory()
	t.Logf("flood of %s: %d KiB resident, %d before", time.Since(begun).Round(time.Millisecond), now, rss)
	if now > mostMemory {
		t.Errorf("%d KiB resident, want at most %d", now, mostMemory)
	}
	listed := 0
	for _, p := range desk.ListPeers() {
		if p.State == client.PeerDiscovered {
			listed++
		}
		if p.ID[0] == 0x77 {
			t.Errorf("a peer from another network: %+v", p)
		}
	}
	if listed > strangers || listed < strangers/2 {
		t.Errorf("%d strangers are listed, want nearly %d", listed, strangers)
	}
	friend := desk.FindPeer(laptop.ID)
	if friend.State != client.PeerConnected || !slices.Contains(friend.Addrs, "10.77.0.2:7117") || slices.ContainsFunc(friend.Addrs, func(a string) bool { return strings.HasPrefix(a, "198.") }) {
		t.Errorf("the friend: %+v", friend)
	}
	if n := desk.heard(client.EventDown, laptop.ID) - downs; n != 0 {
		t.Errorf("the friend was disconnected %d times", n)
	}
	if n := desk.heard(client.EventLost, tablet.ID); n != 0 {
		t.Errorf("a true stranger was displaced %d times", n)
	}
	// Each forged goodbye is put right within a second, but for a processor that is
	// not to be had so long, as may be while other programs want it too.
	if n := desk.heard(client.EventLost, laptop.ID); n > count/1000/2 {
		t.Errorf("%d of %d forged goodbyes were believed", n, count/1000)
	}
	for addr, c := range traps {
		if _, n := c.calls(); n != 1 {
			t.Errorf("%d packets to %s", n-1, addr)
		}
	}

	// When the friend is gone it is looked for, also where the spoofer says it is: not
	// beyond the link, and not often.
	gone := laptop.KillDaemon()
	for i := 0; time.Since(gone) < 15*time.Second; i++ {
		spoofer.claim(laptop.ID, 75, slices.Concat(foreign[:1+i%7], foreign[2+i%7:])...) // always another set
		<-time.After(100 * time.Millisecond)
	}
	for addr, c := range traps {
		dials, packets := c.calls()
		t.Logf("%s: %d dials, %d packets", addr, len(dials), packets)
		switch {
		case strings.HasPrefix(addr, "198.") || addr == "10.77.0.3:7117":
			if packets != 1 {
				t.Errorf("%d packets to %s", packets-1, addr)
			}
		default:
			if len(dials) == 0 {
				t.Errorf("no dial to %s: not even a hint", addr)
			}
			for i := range dials[min(1, len(dials)):] {
				// It is 5 s, less what this process was late for the first.
				if pause := dials[i+1].Sub(dials[i]); pause < 2500*time.Millisecond {
					t.Errorf("%s was dialled again after %s", addr, pause)
				}
			}
		}
	}
	laptop.start()
	t.Logf("the friend is back after %s", desk.connects(laptop, laptop.Acpd.Begun, 2*time.Second+slack))
	newcomer := h[1].acpd("newcomer")
	t.Logf("a newcomer is seen after %s", desk.sees(newcomer.ID, "", newcomer.Acpd.Begun, await.Patience))
	if w := desk.warnings(); len(w) > 1 {
		t.Errorf("%d warnings:\n%s", len(w), strings.Join(w, "\n"))
	}
}
