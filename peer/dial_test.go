package peer

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

const nowhere = "192.0.2.99:7117"

// dials counts how often and when a node looks up where to dial.
type dials struct {
	mu sync.Mutex
	at []time.Time
}

func (d *dials) times() []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.at)
}

// counted makes a node's dials go to addrs and counts them.
func (d *dials) counted(addrs ...string) func(*Config) {
	return func(c *Config) {
		c.Addrs = func(identity.ID) []string {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.at = append(d.at, time.Now())
			return addrs
		}
	}
}

func TestReconnectBacksOff(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var d dials
		a := w.side(d.counted(nowhere))
		w.serve(a)
		key := newKey(t)
		a.knows(key, "reviewer")
		a.Connect(key.ID())
		time.Sleep(10 * time.Minute)
		at := d.times()
		if n := len(at); n < 600/33 || n > 60 {
			t.Errorf("%d dials in 10 minutes", n)
		}
		if len(at) < 3 {
			return
		}
		if gap := at[1].Sub(at[0]); gap > dialTime+minBackoff {
			t.Errorf("the first pause was %v", gap-dialTime)
		}
		pauses := make(map[time.Duration]bool)
		for i := range at[1:] {
			pause := at[i+1].Sub(at[i])
			pauses[pause.Truncate(time.Millisecond)] = true
			if pause > dialTime+maxBackoff+time.Second {
				t.Errorf("a pause of %v", pause)
			}
		}
		if len(pauses) < len(at)/2 {
			t.Error("the pauses have no jitter")
		}
		n := len(at)
		a.Connect(key.ID()) // a new address is known
		time.Sleep(2 * dialTime)
		if more := len(d.times()) - n; more < 1 || more > 8 {
			t.Errorf("%d dials after a hint", more)
		}
	})
}

// TestReconnectBacksOffWhereNothingLasts has a peer that hangs up as soon as it is
// connected. A link that lasted is there again at once.
func TestReconnectBacksOffWhereNothingLasts(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var d dials
		var hangsUp atomic.Bool
		a, b := w.side(nil), w.side(nil)
		b.cfg.Event = func(e Event) {
			if e.Type == EventUp && hangsUp.Load() {
				c := b.listConns()[0]
				time.AfterFunc(10*latency, func() { c.close(closeProtocolError, "test") })
			}
		}
		d.counted(b.Addr().String())(&a.cfg)
		w.meet(a, b)
		hangsUp.Store(true)
		a.Connect(b.ID())
		time.Sleep(10 * time.Minute)
		if n := len(d.times()); n < 600/33 || n > 60 {
			t.Errorf("%d dials in 10 minutes", n)
		}
		hangsUp.Store(false)
		time.Sleep(maxBackoff + steadyTime)
		b.listConns()[0].close(closeProtocolError, "test")
		time.Sleep(10 * latency)
		if len(a.Peers()) != 1 {
			t.Error("it is not dialled again at once")
		}
	})
}

func TestVerdictsAreShared(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var d dials
		a := w.side(d.counted(nowhere))
		w.serve(a)
		key := newKey(t)
		a.knows(key, "reviewer")
		call := func(least, most time.Duration) {
			t.Helper()
			a.call(key.ID(), query("?")).want(t, kinds.Unreachable, kinds.DeliveredNo, least, most)
		}
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() { call(handshakeTimeout, dialTime) })
		}
		calls.Wait()
		call(0, 0)
		time.Sleep(900 * time.Millisecond)
		call(0, 0)
		if n := len(d.times()); n != 1 {
			t.Errorf("%d dials, want 1", n)
		}
		time.Sleep(200 * time.Millisecond)
		call(handshakeTimeout, dialTime)
		if n := len(d.times()); n != 2 {
			t.Errorf("%d dials, want 2", n)
		}
	})
}

// What a dial found long ago is not why a call gives up now, though a dial without an address has failed since.
func TestOldFailuresAreNoReason(t *testing.T) {
	n := &Node{cfg: Config{Trust: identity.NewMemoryTrustStore()}}
	old := n.newUnreachableError(identity.ID{1}, kinds.DeliveredNo, "nothing listens")
	for _, c := range []struct {
		age  time.Duration
		want bool
	}{{0, true}, {dialTime, false}} {
		state := &peerState{node: n, id: identity.ID{1}, lastDialFailure: old, lastDialFailedAt: time.Now().Add(-c.age), sharedFailureAt: time.Now()}
		if err := state.newGaveUpError(t.Context(), nil); (err == old) != c.want {
			t.Errorf("after %s: %v", c.age, err)
		}
	}
}

// TestRefusalStopsTheBackground: who is refused waits for somebody to call, or for
// the peer to.
func TestRefusalStopsTheBackground(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var d dials
		a, b := w.side(nil), w.side(nil)
		d.counted(nowhere, b.Addr().String())(&a.cfg)
		a.knows(b.cfg.Key, "reviewer")
		w.serve(a, b)
		refused := func(dials int) {
			t.Helper()
			time.Sleep(time.Hour)
			if n := len(d.times()); n != dials || a.saw(EventRefused) != n {
				t.Errorf("%d dials, %d times refused, want %d", n, a.saw(EventRefused), dials)
			}
		}
		a.Connect(b.ID())
		refused(1)
		if err := a.tryAsk(b, "?"); code(err) != kinds.NotTrusted {
			t.Error(err)
		}
		refused(2)
		b.trusts(a, "planner")
		a.ask(b, "and now?")
		b.untrusts(a)
		time.Sleep(time.Hour)
		if n := len(d.times()); n != 3 {
			t.Errorf("%d dials after it was cut off", n-3)
		}
	})
}

// TestRefusalIsNotRemembered: from the moment in which the peer trusts this node its
// calls go through, though the peer does not call back, and what the network says of
// its addresses is given out once.
func TestRefusalIsNotRemembered(t *testing.T) {
	for name, meet := range map[string]func(t *testing.T, a, b *side){
		"after a refusal": func(t *testing.T, a, b *side) {
			if err := a.tryAsk(b, "?"); code(err) != kinds.NotTrusted {
				t.Error(err)
			}
		},
		"while one is on its way": func(t *testing.T, a, b *side) {
			early := a.start(b, query("?"))
			t.Cleanup(func() { (<-early).want(t, kinds.NotTrusted, kinds.DeliveredNo, 0, 10*latency) })
			for len(b.Pending()) == 0 {
				time.Sleep(latency / 10)
			}
		},
		"after it was cut off": func(t *testing.T, a, b *side) {
			b.knows(a.cfg.Key, "planner")
			a.ask(b, "?")
			b.untrusts(a)
			time.Sleep(2 * latency)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, w *network) {
				a, b := w.side(nil), w.side(nil)
				told := false
				a.cfg.Addrs = func(identity.ID) []string {
					if told {
						return nil
					}
					told = true
					return []string{b.Addr().String()}
				}
				a.knows(b.cfg.Key, "reviewer")
				w.serve(a, b)
				meet(t, a, b)
				b.knows(a.cfg.Key, "planner")
				a.asksWithin(b, refusalPause+10*latency)
			})
		})
	}
}

// TestRefusedInALoop: however many call a peer that does not trust this node, it is
// dialled at a measured pace.
func TestRefusedInALoop(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var d dials
		a, b := w.side(nil), w.side(nil)
		d.counted(b.Addr().String())(&a.cfg)
		a.knows(b.cfg.Key, "reviewer")
		w.serve(a, b)
		const each = 50
		start := time.Now()
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				for range each {
					a.call(b.ID(), query("?")).want(t, kinds.NotTrusted, kinds.DeliveredNo, 0, 2*refusalPause)
				}
			})
		}
		callers.Wait()
		if n, most := len(d.times()), int(time.Since(start)/refusalPause)+1; n < each || n > most {
			t.Errorf("%d dials in %v, want %d to %d", n, time.Since(start), each, most)
		}
	})
}

// TestClone runs one key in two processes: the later one is served, the earlier
// one told and held off for 30 s.
func TestClone(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var d dials
		key, trust := newKey(t), identity.NewMemoryTrustStore()
		a := w.side(nil)
		same := func(c *Config) { c.Key, c.Trust = key, trust }
		b1 := w.side(func(c *Config) {
			same(c)
			d.counted(a.Addr().String())(c)
		})
		b2 := w.side(same)
		w.meet(a, b1)
		b2.serve()
		b1.Connect(a.ID())
		time.Sleep(time.Second)
		b2.ask(a, "who is it now?")
		time.Sleep(time.Second)
		if n := len(d.times()); n != 2 {
			t.Errorf("%d dials, want 2", n)
		}
		b1.call(a.ID(), query("and I?")).want(t, kinds.IdentityConflict, kinds.DeliveredNo, 0, 0)
		time.Sleep(27 * time.Second)
		if n := len(d.times()); n != 2 {
			t.Errorf("%d dials within 30 s", n-2)
		}
		time.Sleep(5 * time.Second)
		if n := len(d.times()); n != 3 {
			t.Errorf("%d dials after 30 s, want 1", n-2)
		}
		if a.saw(EventIdentityConflict) != 2 {
			t.Errorf("%d events identity_conflict, want 2", a.saw(EventIdentityConflict))
		}
		b2.ask(a, "not disturbed?")
		if a.saw(EventUp) != 1 || a.saw(EventDown) != 0 {
			t.Errorf("%d up, %d down", a.saw(EventUp), a.saw(EventDown))
		}
	})
}

// TestWrongIDAtTheAddress has another daemon where the peer was: the error names
// the address, and what is corrected works at once.
func TestWrongIDAtTheAddress(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b, other := w.side(nil), w.side(nil), w.side(nil)
		peer := identity.Peer{ID: b.ID(), Name: "reviewer", Addrs: []string{other.Addr().String()}}
		a.trust.Trust(peer)
		b.knows(a.cfg.Key, "planner")
		w.serve(a, b, other)
		o := a.call(b.ID(), query("?"))
		o.want(t, kinds.IdentityConflict, kinds.DeliveredNo, 0, time.Second)
		says(t, o.err, kinds.IdentityConflict, other.Addr().String(), other.ID().Label())
		peer.Addrs = []string{other.Addr().String(), nowhere, b.Addr().String()}
		a.trust.Trust(peer)
		time.Sleep(shareVerdict) // on the virtual clock
		a.asksWithin(b, 2*dialStagger+20*latency)
		a.listConns()[0].close(closeReplaced, "test")
		time.Sleep(time.Second)
		a.asksWithin(b, 10*latency)
	})
}

// Where the addresses that failed are not given out again yet, a call hears for some seconds why, and not that there are none.
func TestNoAddressForNow(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var now []string
		a, b := w.side(func(c *Config) { c.Addrs = func(identity.ID) []string { return now } }), w.side(nil)
		a.trust.Trust(identity.Peer{ID: b.ID(), Name: "reviewer"})
		w.serve(a)
		b.serve() // does not trust a
		fails := func(code kinds.Code, word string) {
			t.Helper()
			o := a.call(b.ID(), query("?"))
			o.want(t, code, kinds.DeliveredNo, 0, dialTime)
			says(t, o.err, code, word)
			if word != "no address" { // which keeps no call from an address that there is now
				time.Sleep(shareVerdict) // on the virtual clock
			}
		}
		fails(kinds.Unreachable, "no address")
		now = []string{nowhere}
		fails(kinds.Unreachable, "no answer")
		now = nil
		fails(kinds.Unreachable, "no answer")
		time.Sleep(lastFailureCounts)
		fails(kinds.Unreachable, "no address")
		now = []string{b.Addr().String()}
		fails(kinds.NotTrusted, "trust")
		now = nil
		fails(kinds.NotTrusted, "trust")
	})
}

// TestIncomingSettlesTheDial has the peer call while it is dialled where nobody
// is: the calls that wait go on at once, and when that connection is lost too,
// nothing spins.
func TestIncomingSettlesTheDial(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.side(nil), w.side(nil)
		a.trust.Trust(identity.Peer{ID: b.ID(), Name: "reviewer", Addrs: []string{nowhere}})
		b.trusts(a, "planner")
		w.serve(a, b)
		call := a.start(b, query("?"))
		b.ask(a, "is it you?")
		(<-call).answered(t, 0, 30*latency)
		state := a.findOrCreateState(b.ID())
		state.mu.Lock()
		defer state.mu.Unlock()
		if state.dial != nil {
			t.Error("it still dials")
		}
	})
}

// TestMissingRouteIsNotRemembered: a call that begins when the route is back goes
// through, however short before another had none.
func TestMissingRouteIsNotRemembered(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.side(nil), w.side(nil)
		a.trust.Trust(identity.Peer{ID: b.ID(), Name: "reviewer", Addrs: []string{b.Addr().String()}})
		b.trusts(a, "planner")
		found := probeNoRoute
		a.udp.prober = hostProber(func(context.Context, net.Addr) probeResult { return found })
		w.serve(a, b)
		if err := a.tryAsk(b, "?"); code(err) != kinds.Unreachable {
			t.Errorf("without a route: %v", err)
		}
		found = probeSilent
		a.ask(b, "and now?")
	})
}

func TestShutdownEndsDials(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a := w.side(func(c *Config) { c.Addrs = func(identity.ID) []string { return []string{nowhere} } })
		w.serve(a)
		key := newKey(t)
		a.knows(key, "reviewer")
		a.Connect(key.ID())
		errs := make(chan error, 1)
		go func() {
			_, _, err := a.Exchange(context.Background(), key.ID(), query("?"))
			errs <- err
		}()
		time.Sleep(time.Second)
		start := time.Now()
		a.shutdown()
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("the shutdown took %v", took)
		}
		outcome{<-errs, 0}.want(t, kinds.Unreachable, kinds.DeliveredNo, 0, 0)
		a.call(key.ID(), query("?")).want(t, kinds.Unreachable, kinds.DeliveredNo, 0, 0)
	})
}

// TestUntrustEndsTheDial: who waits for it hears why, and it says nothing about the
// trust that comes after.
func TestUntrustEndsTheDial(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.side(nil), w.side(nil)
		a.trust.Trust(identity.Peer{ID: b.ID(), Name: "reviewer", Addrs: []string{nowhere}})
		b.trusts(a, "planner")
		w.serve(a, b)
		call := a.start(b, query("?"))
		a.untrusts(b)
		(<-call).want(t, kinds.UnknownPeer, kinds.DeliveredNo, 0, 20*latency)
		time.Sleep(10 * latency) // the dial has ended
		a.trusts(b, "reviewer")
		a.asksWithin(b, 10*latency)
	})
}

func TestResolve(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:7117":        "192.0.2.1:7117",
		"[2001:db8::1]:7117":    "[2001:db8::1]:7117",
		"[fe80::1%eth9]:7117":   "[fe80::1%eth9]:7117",
		"desk.example":          "",
		"localhost:http":        "",
		"localhost:70000":       "",
		"no such host.invalid:": "",
	} {
		got, err := resolveAddr(t.Context(), addr)
		if (err == nil) != (want != "") || err == nil && got[0].String() != want {
			t.Errorf("%s: got %v, %v", addr, got, err)
		}
	}
	ips, err := resolveAddr(t.Context(), "localhost:7117")
	if err != nil || !slices.ContainsFunc(ips, func(a *net.UDPAddr) bool { return a.IP.IsLoopback() && a.Port == 7117 }) {
		t.Errorf("localhost: %v, %v", ips, err)
	}
}
