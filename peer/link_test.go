package peer

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/kinds"
)

// relayRTT is a round trip to the relay, peerRTT one through it to a peer.
const (
	relayRTT = 2 * hop
	peerRTT  = 4 * hop
)

// TestCallsOverARelay: two nodes that know each other only by a relay ask, notify, drain and come
// back as on UDP.
func TestCallsOverARelay(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		a, b := w.relayed(r, slowly)
		a.ask(b, "first")
		call := a.start(b, lasting(time.Second))
		b.ask(a, "from the other side")
		if got, err := a.Send(t.Context(), b.ID(), notify("build.done"), true); err != nil || got != Handed {
			t.Errorf("a message: %q, %v", got, err)
		}
		p, ok := a.Peer(b.ID())
		if want := r.link(b.ID()).LocalAddr().String(); !ok || p.Path != ViaRelay || p.Addr != want {
			t.Errorf("connected: %v, by %q at %q; want %q at %q", ok, p.Path, p.Addr, ViaRelay, want)
		}
		if state := a.findState(b.ID()); state.lastGoodAddr != "" || state.provedAddr.IsValid() {
			t.Errorf("an address on the relay is remembered: %q, %v", state.lastGoodAddr, state.provedAddr)
		}

		down := make(chan time.Duration, 1)
		go func() { // it drains: the call that is open is answered
			start := time.Now()
			b.shutdown()
			down <- time.Since(start)
		}()
		(<-call).answered(t, time.Second, time.Second+4*peerRTT)
		if took := <-down; took > time.Second+4*peerRTT {
			t.Errorf("the shutdown took %v", took)
		}
		time.Sleep(peerRTT)
		if _, ok := a.Peer(b.ID()); ok {
			t.Error("the peer has shut down and is connected")
		}
		b.again(w, r, slowly)
		time.Sleep(time.Second)
		a.ask(b, "after a restart")
		if got := a.details(EventUp); !equal(got, string(ViaRelay), string(ViaRelay)) {
			t.Errorf("details of up: %q", got)
		}
	})
}

// again starts a node's process anew, on the relay and at another UDP address.
func (s *side) again(w *network, r *relayNet, edit func(*Config)) {
	s.t.Helper()
	key, trust := s.cfg.Key, s.trust
	fresh := newSide(s.t, func(c *Config) {
		c.Key, c.Trust, c.Conn = key, trust, newIdleSocket(w.addr())
		r.joined(edit)(c)
	})
	s.Node, s.done = fresh.Node, fresh.done
	s.serve()
}

// details returns those of the events of a type.
func (s *side) details(typ EventType) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Type == typ {
			all = append(all, e.Detail)
		}
	}
	return all
}

func equal(got []string, want ...string) bool {
	return strings.Join(got, " ") == strings.Join(want, " ")
}

// TestAbsentOnTheRelay: a peer that is not there is known to be after one round trip to the relay,
// a moment later again, and one whose relay says nothing after the time of a dial.
func TestAbsentOnTheRelay(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		a := w.side(r.joined(nil))
		w.serve(a)
		absent := newKey(t)
		a.knows(absent, "reviewer")
		time.Sleep(time.Second)
		call := func(least, most time.Duration) {
			t.Helper()
			o := a.call(absent.ID(), query("?"))
			o.want(t, kinds.Unreachable, kinds.DeliveredNo, least, most)
			says(t, o.err, kinds.Unreachable, "relay:corp;")
		}
		call(relayRTT, relayRTT)
		call(0, 0) // it is shared
		time.Sleep(refusedMemory)
		call(relayRTT, relayRTT)
		time.Sleep(shareVerdict)
		r.set(func() { r.silent = true })
		call(handshakeTimeout, dialTime)
		if _, err := a.TryAddr(t.Context(), absent.ID(), "relay:corp"); err == nil || err.Code != kinds.Unreachable {
			t.Errorf("a probe: %v", err)
		}
		if _, err := a.TryAddr(t.Context(), absent.ID(), "relay:home"); err == nil || !strings.Contains(err.Error(), "no such link") {
			t.Errorf("a probe of a link that is not there: %v", err)
		}
	})
}

// TestTryAddrOnALink: both texts of an address on a link are taken, and a peer proves its key.
func TestTryAddrOnALink(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		a, b := w.relayed(r, nil)
		time.Sleep(time.Second)
		for _, addr := range []string{"relay:corp", "relay:corp/" + b.ID().String()} {
			if rtt, err := a.TryAddr(t.Context(), b.ID(), addr); err != nil || rtt < peerRTT {
				t.Errorf("%s: %v, %v", addr, rtt, err)
			}
		}
		if _, connected := a.Peer(b.ID()); connected {
			t.Error("a probe left a connection")
		}
	})
}

// TestJoinOverARelay redeems an invitation that names the relay alone, and one that names nothing.
func TestJoinOverARelay(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		host, guest, third := w.side(r.joined(nil)), w.side(r.joined(nil)), w.side(nil)
		w.serve(host, guest, third)
		time.Sleep(time.Second)
		inv := host.invite(0, "")
		inv.Addrs = []string{"relay:corp/" + host.ID().String()}
		if _, err := third.Join(t.Context(), inv); code(err) != kinds.Invalid {
			t.Errorf("without the link: %v", err)
		}
		p, err := guest.Join(t.Context(), inv)
		if err != nil || len(p.Addrs) > 0 {
			t.Fatalf("joined with %+v, %v", p, err)
		}
		guest.ask(host, "heard?")
		time.Sleep(time.Second)
		host.ask(guest, "heard?")
		if host.findState(guest.ID()).lastGoodAddr != "" {
			t.Error("the address on the relay is remembered")
		}
	})
}

// TestLinkAddrs: a host that is named like a kind of link is still a host.
func TestLinkAddrs(t *testing.T) {
	for text, want := range map[string]bool{
		"relay:corp": true, "relay:corp/0123": true, "pipe:build": true, "pipe:in-3": true, "relay:7": false,
		"relay:7117": false, "pipe:7117": false, "desk:7117": false, "[::1]:7117": false, "relay": false, "": false,
	} {
		if got := isLinkAddr(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	for text, want := range map[string]string{"relay:corp/01": "relay:corp", "pipe:build": "pipe:build", "192.0.2.1:7": "192.0.2.1:7"} {
		if got := shortAddr(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestKeysOfLinks: a link that is asked for the reset of a connection of another gives none that
// ends it (RFC 9000, section 21.11).
// holds: security.md#against-strangers
func TestKeysOfLinks(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a := w.side(func(c *Config) {
			for _, name := range []string{"corp", "home"} {
				newRelayNet(name).joined(nil)(c)
			}
		})
		w.start()
		seen := make(map[any]string)
		for _, e := range append(a.links.snapshot(), a.udp) {
			for _, key := range []any{[32]byte(*e.transport.StatelessResetKey), [32]byte(*e.transport.TokenGeneratorKey)} {
				if other, taken := seen[key]; taken {
					t.Errorf("%q has a key of %q", e.name, other)
				}
				seen[key] = e.name
			}
		}
		if want := a.cfg.Key.DeriveSecret("acp stateless reset v1"); seen[[32]byte(want)] != "" || len(seen) != 6 {
			t.Error("the key of the UDP socket has changed: a restart would not end connections of before")
		}
		a.Close()
	})
}
