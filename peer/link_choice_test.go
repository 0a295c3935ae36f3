package peer

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
)

// twoPaths is two nodes that know each other by UDP addresses and by a relay, of which the one or
// the other has the smaller id.
func twoPaths(t *testing.T, f func(t *testing.T, net *valve, r *relayNet, a, b *side)) {
	for _, smaller := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			net, r := new(valve), newRelayNet("corp")
			w := newNetwork(t, net)
			node := func() *side {
				return w.side(func(c *Config) {
					slowly(c)
					r.joined(nil)(c)
				})
			}
			a, b := node(), node()
			if (a.ID().Compare(b.ID()) < 0) != smaller {
				a, b = b, a
			}
			a.trusts(b, "reviewer")
			b.trusts(a, "planner")
			w.start()
			f(t, net, r, a.serve(), b.serve())
		})
	}
}

// relayLeg is the way to a peer over the relay alone.
func relayLeg(t *testing.T, from, to *side) leg {
	t.Helper()
	route, err := from.findRoute(to.ID(), "relay:corp")
	if err != nil {
		t.Fatal(err)
	}
	legs, err := route.resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return legs[0]
}

func (s *side) pathTo(o *side) Path {
	p, _ := s.Peer(o.ID())
	return p.Path
}

// TestDirectIsDialledFirst: where UDP leads to the peer, the relay carries nothing.
func TestDirectIsDialledFirst(t *testing.T) {
	twoPaths(t, func(t *testing.T, _ *valve, r *relayNet, a, b *side) {
		a.ask(b, "?")
		time.Sleep(time.Second)
		if _, passed := r.count(); passed > 0 || a.pathTo(b) != Direct {
			t.Errorf("%d packets on the relay; the path is %q", passed, a.pathTo(b))
		}
	})
}

// TestRelayIsDialledLater: where UDP leads nowhere, a call goes over the relay that much later;
// where no UDP address is known, at once.
func TestRelayIsDialledLater(t *testing.T) {
	twoPaths(t, func(t *testing.T, net *valve, r *relayNet, a, b *side) {
		net.shut.Store(true)
		time.Sleep(time.Second)
		call := func(least time.Duration) {
			t.Helper()
			start := time.Now()
			a.ask(b, "?")
			if took := time.Since(start); took < least || took > least+6*peerRTT {
				t.Errorf("it took %v, want %v and little more", took, least)
			}
			if a.pathTo(b) != ViaRelay {
				t.Errorf("the path is %q", a.pathTo(b))
			}
		}
		call(linkDelay)
		a.Disconnect(b.ID())
		a.cfg.Addrs = func(identity.ID) []string { return nil }
		time.Sleep(time.Second)
		call(0)
	})
}

// TestOldAddressesAreNotDialled: where connections are to stay on relays and there is one, a peer is not
// dialled where it was before.
// holds: security.md#exposure-on-the-network
func TestOldAddressesAreNotDialled(t *testing.T) {
	twoPaths(t, func(t *testing.T, _ *valve, _ *relayNet, a, b *side) {
		a.ask(b, "?")
		a.cfg.Addrs = func(identity.ID) []string { return nil }
		paths := func() (all []string) {
			for _, r := range a.findState(b.ID()).listRoutes(false) {
				all = append(all, string(r.path))
			}
			return all
		}
		if got := paths(); !equal(got, string(ViaRelay)) {
			t.Errorf("it stays on relays: %q", got)
		}
		a.cfg.NoUpgrade = false
		if got := paths(); !equal(got, string(Direct), string(ViaRelay)) {
			t.Errorf("it leaves relays: %q", got)
		}
		a.cfg.NoUpgrade = true
		a.RemoveLink("relay:corp")
		if got := paths(); !equal(got, string(Direct)) {
			t.Errorf("without a relay: %q", got)
		}
	})
}

// TestDirectReplacesTheRelay: a direct connection that becomes ready beside a relayed one takes the
// new calls. The other drains, and its calls are answered.
func TestDirectReplacesTheRelay(t *testing.T) {
	twoPaths(t, func(t *testing.T, net *valve, r *relayNet, a, b *side) {
		net.shut.Store(true)
		a.ask(b, "before")
		there, back := a.start(b, lasting(20*time.Second)), b.start(a, lasting(10*time.Second))
		relayed := a.listConns()[0]
		net.shut.Store(false)
		if f := a.findState(b.ID()).dialLeg(t.Context(), leg{on: a.udp, addr: b.Addr(), text: "b"}); f != nil {
			t.Fatal(f.Error)
		}
		time.Sleep(peerRTT)
		if a.pathTo(b) != Direct || b.pathTo(a) != Direct {
			t.Errorf("the paths are %q and %q", a.pathTo(b), b.pathTo(a))
		}
		_, before := r.count()
		for range 100 {
			a.ask(b, "on the direct one")
		}
		if _, now := r.count(); now-before > 10 {
			t.Errorf("%d packets of 100 calls on the relay", now-before)
		}
		(<-back).answered(t, 10*time.Second, 10*time.Second+peerRTT)
		(<-there).answered(t, 20*time.Second, 20*time.Second+peerRTT)
		time.Sleep(2 * time.Second)
		if app, ok := errors.AsType[*quic.ApplicationError](relayed.endCause()); !ok || app.ErrorCode != closeReplaced {
			t.Errorf("the relayed one ended with %v", relayed.endCause())
		}
		for _, s := range []*side{a, b} {
			if got := s.details(EventMoved); !equal(got, string(Direct)) || s.saw(EventDown) > 0 {
				t.Errorf("moved %q, %d times down", got, s.saw(EventDown))
			}
		}
	})
}

// TestLesserPathIsSurplus: a relayed connection that becomes ready beside a direct one that lives
// takes no calls, and goes.
func TestLesserPathIsSurplus(t *testing.T) {
	twoPaths(t, func(t *testing.T, net *valve, r *relayNet, a, b *side) {
		a.ask(b, "before")
		direct := a.listConns()[0]
		if f := a.findState(b.ID()).dialLeg(t.Context(), relayLeg(t, a, b)); f != nil {
			t.Fatal(f.Error)
		}
		for range 10 {
			a.ask(b, "?")
			b.ask(a, "?")
		}
		time.Sleep(5 * time.Second)
		if all := a.listConns(); len(all) != 1 || all[0] != direct || a.pathTo(b) != Direct || b.pathTo(a) != Direct {
			t.Errorf("%d connections, the paths are %q and %q", len(all), a.pathTo(b), b.pathTo(a))
		}
		if a.saw(EventMoved)+b.saw(EventMoved) > 0 {
			t.Error("nothing has moved")
		}
	})
}

// TestFallBackToTheRelay: one side has lost the direct path and comes over the relay. The other
// believes in the direct connection until it has proven it, and keeps the relayed one.
func TestFallBackToTheRelay(t *testing.T) {
	twoPaths(t, func(t *testing.T, net *valve, r *relayNet, a, b *side) {
		a.ask(b, "before")
		time.Sleep(time.Second)
		net.shut.Store(true)
		for _, c := range a.listConns() {
			c.close(closeDead, "the test says so") // which does not arrive
		}
		if b.pathTo(a) != Direct {
			t.Fatal("the other side has noticed")
		}
		a.asksWithin(b, linkDelay+6*peerRTT)
		relayed := a.listConns()[0]
		b.asksWithin(a, 3500*time.Millisecond-linkDelay)
		if all := a.listConns(); len(all) != 1 || all[0] != relayed {
			t.Error("the relayed connection was taken away")
		}
		if got := b.details(EventMoved); !equal(got, string(ViaRelay)) || b.saw(EventDown) > 0 {
			t.Errorf("moved %q, %d times down", got, b.saw(EventDown))
		}
		if got := a.details(EventUp); !equal(got, string(Direct), string(ViaRelay)) {
			t.Errorf("up %q", got)
		}
	})
}

// TestVictimIsOfTheLeastPath: a peer with too many connections loses one on the relay, and not the
// direct one, which is older.
func TestVictimIsOfTheLeastPath(t *testing.T) {
	key := newKey(t)
	n := &Node{self: key.ID()}
	conns := func(paths ...Path) *peerState {
		state := &peerState{node: n, id: identity.ID{1}}
		for _, p := range paths {
			state.conns = append(state.conns, &conn{node: n, endpoint: &endpoint{path: p}})
		}
		return state
	}
	for _, c := range []struct {
		paths  []Path
		victim int
	}{
		{[]Path{Direct, Direct, Direct, Direct, Direct}, 0},
		{[]Path{Direct, ViaRelay, ViaRelay, ViaPipe, Direct}, 1},
		{[]Path{Direct, ViaPipe, Direct, Direct, ViaRelay}, 1},
		{[]Path{ViaRelay, ViaRelay, ViaRelay, ViaRelay, ViaRelay}, 0},
	} {
		state := conns(c.paths...)
		want := state.conns[c.victim]
		if got := state.removeVictim(); got != want || len(state.conns) != 4 || slices.Contains(state.conns, got) {
			t.Errorf("%v: another one goes than %d", c.paths, c.victim)
		}
	}
}
