package peer

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// onRelays runs a test of two nodes that know addresses of each other, which lead nowhere while net is shut, and
// that have just connected on relays. edit edits the first one's configuration; nil: it does not.
func onRelays(t *testing.T, edit func(*Config), test func(t *testing.T, net *valve, a, b *side), relays ...*relayNet) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := new(valve)
		net.shut.Store(true)
		w := newNetwork(t, net)
		join := func(c *Config) {
			for _, r := range relays {
				r.joined(nil)(c)
			}
		}
		b := w.side(join)
		a := w.side(func(c *Config) {
			join(c)
			if edit != nil {
				edit(c)
			}
		})
		a.trusts(b, "reviewer")
		b.trusts(a, "planner")
		w.start()
		a.serve()
		b.serve()
		synctest.Wait()
		a.ask(b, "before")
		test(t, net, a, b)
	})
}

// timeFailure makes a call that fails as unreachable with these words, delivered no, and returns how long it took.
func (s *side) timeFailure(to *side, words ...string) time.Duration {
	s.t.Helper()
	began := time.Now()
	err := s.tryAsk(to, "there?")
	says(s.t, err, kinds.Unreachable, words...)
	if err != nil && kinds.AsError(err).Delivered() != kinds.DeliveredNo {
		s.t.Errorf("%v: delivered %s, want no", err, kinds.AsError(err).Delivered())
	}
	return time.Since(began)
}

const absent = "nobody takes its packets at relay:"

// TestAbsentFromItsRelays: calls to a peer that was on relays alone fail as soon as all of them say that it is
// away, however often they are made, though nobody has answered yet at its address.
func TestAbsentFromItsRelays(t *testing.T) {
	corp, home := newRelayNet("corp"), newRelayNet("home")
	for _, relays := range [][]*relayNet{{corp}, {corp, home}} {
		onRelays(t, nil, func(t *testing.T, net *valve, a, b *side) {
			time.Sleep(dialTime)
			home.cut(b.ID())
			b.killed(corp)
			time.Sleep(time.Second)
			before := net.lost.Load()
			for i := range 50 {
				soon := 2*peerRTT + hop + time.Duration(len(relays)-1)*dialStagger
				if took := a.timeFailure(b, absent); took > soon {
					t.Errorf("call %d took %v, want %v", i, took, soon)
				}
				time.Sleep(time.Duration(i%7) * 40 * time.Millisecond)
			}
			// A dial of 2 s sends 6 of a handshake and 4 probes. The calls took 6 s.
			if n := net.lost.Load() - before; n > 4*10 {
				t.Errorf("%d packets to the address", n)
			}
		}, relays...)
	}
}

// TestAddressIsTriedOn: a peer that went from its relay, and that its address leads to now, is found there after
// the first call in vain, however many calls are made.
// holds: security.md#against-strangers
func TestAddressIsTriedOn(t *testing.T) {
	corp := newRelayNet("corp")
	for _, pause := range []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, time.Second} {
		onRelays(t, nil, func(t *testing.T, net *valve, a, b *side) {
			time.Sleep(dialTime)
			corp.cut(b.ID())
			time.Sleep(time.Second)
			a.timeFailure(b, absent)
			time.Sleep(150 * time.Millisecond) // the first packets to the address are lost
			net.shut.Store(false)
			opened := time.Now()
			for a.tryAsk(b, "there?") != nil && time.Since(opened) < time.Minute {
				time.Sleep(pause)
			}
			if took := time.Since(opened); took > time.Second+pause || a.pathTo(b) != Direct {
				t.Errorf("found on the path %q after %v", a.pathTo(b), took)
			}
			net.shut.Store(true)
			b.kill()
			time.Sleep(time.Minute)
			if took := a.timeFailure(b); took < handshakeTimeout {
				t.Errorf("where it was found last, it was tried for %v", took)
			}
		}, corp)
	}
}

// TestAddressesStillCount: unless the peer was on relays alone, for long enough, with all that is known of it now, a
// call waits for its addresses, also if its relays say that nobody is there.
func TestAddressesStillCount(t *testing.T) {
	corp, home := newRelayNet("corp"), newRelayNet("home")
	lose := func(b *side) {
		home.cut(b.ID())
		b.killed(corp)
		time.Sleep(time.Second)
	}
	for name, prepare := range map[string]func(net *valve, a, b *side){
		"it was connected for a moment": func(_ *valve, a, b *side) { lose(b) },
		"it was connected directly since": func(net *valve, a, b *side) {
			time.Sleep(dialTime)
			net.shut.Store(false)
			if f := a.findState(b.ID()).dialLeg(a.t.Context(), leg{on: a.udp, addr: b.Addr(), text: "b"}); f != nil {
				a.t.Fatal(f.Error)
			}
			time.Sleep(time.Minute)
			net.shut.Store(true)
			lose(b)
			time.Sleep(time.Minute)
		},
		"there may be a new way to it": func(_ *valve, a, b *side) {
			time.Sleep(dialTime)
			lose(b)
			a.timeFailure(b, absent)
			a.lockState(b.ID()).keep = false
			a.findState(b.ID()).mu.Unlock()
			a.Connect(b.ID())
		},
		"a relay is silent": func(_ *valve, a, b *side) {
			time.Sleep(dialTime)
			home.set(func() { home.out = true })
			lose(b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			home.set(func() { home.out = false })
			onRelays(t, nil, func(t *testing.T, net *valve, a, b *side) {
				prepare(net, a, b)
				if took := a.timeFailure(b); took < handshakeTimeout {
					t.Errorf("failed after %v", took)
				}
			}, corp, home)
		})
	}
}

// TestLateDialEndsWell: a dial that goes on after its calls have failed, and finds the peer, is told as one that did.
func TestLateDialEndsWell(t *testing.T) {
	corp := newRelayNet("corp")
	var mu sync.Mutex // guards ends
	var ends []*kinds.Error
	listen := func(c *Config) {
		c.Event = func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Type == EventDialEnded {
				ends = append(ends, e.Err)
			}
		}
	}
	onRelays(t, listen, func(t *testing.T, net *valve, a, b *side) {
		time.Sleep(dialTime)
		corp.cut(b.ID())
		time.Sleep(time.Second)
		mu.Lock()
		ends = nil
		mu.Unlock()
		a.timeFailure(b, absent)
		net.shut.Store(false)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if a.pathTo(b) != Direct || !slices.Contains(ends, nil) {
			t.Errorf("on the path %q, dials ended with %v", a.pathTo(b), ends)
		}
	}, corp)
}

// TestUntrustedWhileItsAddressIsTried: who is not trusted any more is not dialled any more either.
func TestUntrustedWhileItsAddressIsTried(t *testing.T) {
	corp := newRelayNet("corp")
	onRelays(t, nil, func(t *testing.T, net *valve, a, b *side) {
		time.Sleep(dialTime)
		corp.cut(b.ID())
		time.Sleep(time.Second)
		a.timeFailure(b, absent)
		if err := a.trust.Untrust(b.ID()); err != nil {
			t.Fatal(err)
		}
		a.Disconnect(b.ID())
		net.shut.Store(false)
		time.Sleep(2 * dialTime)
		if n := b.saw(EventMoved) + b.saw(EventRefused); n > 0 {
			t.Error("the peer was connected")
		}
	}, corp)
}

// TestNewWayMeanwhile: a call that is made when there may be a new way does not fail by the relays' word, though a dial
// that began before is running, or a connection on a relay has not been found dead yet.
func TestNewWayMeanwhile(t *testing.T) {
	corp := newRelayNet("corp")
	for name, lose := range map[string]func(a, b *side){
		"a dial runs": func(a, b *side) {
			corp.cut(b.ID())
			time.Sleep(time.Second)
			a.timeFailure(b, absent)
			a.lockState(b.ID()).keep = false
			a.findState(b.ID()).mu.Unlock()
			time.Sleep(time.Minute)
		},
		"it seems connected": func(a, b *side) {
			corp.cut(b.ID())
			time.Sleep(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onRelays(t, nil, func(t *testing.T, net *valve, a, b *side) {
				time.Sleep(dialTime)
				lose(a, b)
				var asking sync.WaitGroup
				defer asking.Wait()
				asking.Go(func() { a.tryAsk(b, "there?") })
				time.Sleep(hop) // the relay's word is on its way
				net.shut.Store(false)
				a.Connect(b.ID())
				a.ask(b, "after")
			}, corp)
		})
	}
}

// TestPipeAfterRelaysWaitsForAddresses: a peer that was on relays alone, and has a pipe by now, is dialled as any other:
// no command is started while its addresses may answer.
func TestPipeAfterRelaysWaitsForAddresses(t *testing.T) {
	corp, pipe := newRelayNet("corp"), newRelayNet("build")
	pipe.name, pipe.path, pipe.silent, pipe.out = "pipe:build", ViaPipe, true, true
	onRelays(t, nil, func(t *testing.T, net *valve, a, b *side) {
		time.Sleep(dialTime)
		corp.cut(b.ID())
		time.Sleep(time.Minute)
		for _, r := range a.findState(b.ID()).listRoutes(false) {
			if r.path == ViaPipe && r.delay != linkDelay {
				t.Errorf("the pipe is dialled after %v, want %v", r.delay, linkDelay)
			}
		}
	}, corp, pipe)
}

// TestRefusedWhereItsAddressIsTried: a peer that went from its relay, and refuses where its address leads, is heard:
// by calls, and by the background, which dials no more.
func TestRefusedWhereItsAddressIsTried(t *testing.T) {
	corp := newRelayNet("corp")
	for _, inBackground := range []bool{false, true} {
		onRelays(t, nil, func(t *testing.T, net *valve, a, b *side) {
			if inBackground {
				a.Connect(b.ID())
			}
			time.Sleep(2 * dialTime)
			corp.cut(b.ID())
			if err := b.trust.Untrust(a.ID()); err != nil {
				t.Fatal(err)
			}
			b.Disconnect(a.ID()) // of which nothing comes to a
			net.shut.Store(false)
			refused := 0
			for range 20 {
				if code(a.tryAsk(b, "there?")) == kinds.NotTrusted {
					refused++
				}
				time.Sleep(time.Second)
			}
			if refused < 18 {
				t.Errorf("%d of 20 calls were refused", refused)
			}
			state := a.findState(b.ID())
			state.mu.Lock()
			defer state.mu.Unlock()
			if state.retry != nil || !state.refusesUs {
				t.Errorf("the background dials on: %v; refused: %v", state.retry != nil, state.refusesUs)
			}
		}, corp)
	}
}

// farValve is a valve behind which all is far.
type farValve struct{ valve }

func (v *farValve) SendPacket(p simnet.Packet) error {
	time.AfterFunc(40*time.Millisecond, func() { _ = v.valve.SendPacket(p) })
	return nil
}

// TestDirectGoesFirstAgain: a peer that was on relays alone, and that its address leads to again, is connected there
// when it comes anew, also if its relay is quicker.
func TestDirectGoesFirstAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		corp := newRelayNet("corp")
		net := new(farValve)
		w := newNetwork(t, net)
		a, b := w.side(corp.joined(nil)), w.side(corp.joined(nil))
		a.trusts(b, "reviewer")
		b.trusts(a, "planner")
		w.start()
		a.serve()
		b.serve()
		synctest.Wait()
		net.shut.Store(true)
		a.ask(b, "on the relay")
		time.Sleep(time.Minute)
		net.shut.Store(false)
		corp.set(func() { corp.out = true })
		time.Sleep(time.Minute)
		corp.set(func() { corp.out = false })
		a.ask(b, "directly")
		if p := a.pathTo(b); p != Direct {
			t.Errorf("the path is %q", p)
		}
	})
}

// TestAddressesAreTakenToBeDialled: a dial that leaves the addresses to the late one does not ask for them, since
// those that the network names are given once in a while.
func TestAddressesAreTakenToBeDialled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		corp := newRelayNet("corp")
		net := new(valve)
		net.shut.Store(true)
		w := newNetwork(t, net)
		var b *side
		var taken atomic.Int32
		a := w.side(corp.joined(func(c *Config) {
			c.Addrs = func(identity.ID) []string {
				taken.Add(1)
				return []string{b.Addr().String()}
			}
		}))
		b = w.side(corp.joined(nil))
		a.knows(b.cfg.Key, "reviewer")
		b.knows(a.cfg.Key, "planner")
		w.start()
		a.serve()
		b.serve()
		synctest.Wait()
		a.ask(b, "before")
		time.Sleep(dialTime)
		b.killed(corp)
		time.Sleep(time.Second)
		taken.Store(0)
		for range 5 {
			a.timeFailure(b, absent)
			time.Sleep(200 * time.Millisecond)
		}
		if n := taken.Load(); n != 1 {
			t.Errorf("one dial tried the addresses, and they were taken %d times", n)
		}
	})
}
