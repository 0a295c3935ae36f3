package peer

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestVerdictOverARelay makes calls to a peer that was killed: what they say and how soon, by how
// long the peer had said nothing when it was killed, and how long after that the call begins.
func TestVerdictOverARelay(t *testing.T) {
	// A proof, and the notice that begins it: one for the call, or for what acknowledged the answer before it.
	const unheard = 3*peerRTT + relayRTT
	for _, c := range []struct {
		name          string
		silent, after time.Duration
		delivered     kinds.Delivered
		least, most   time.Duration
	}{
		{"in the midst of calls", 0, hop, kinds.DeliveredUnknown, unheard - hop, unheard + 2*hop},
		{"the notice for an acknowledgement is out", 0, 40 * time.Millisecond, kinds.DeliveredNo, relayRTT, 2*peerRTT + hop},
		{"a pause of some round trips", 0, leastSilence, kinds.DeliveredNo, relayRTT, 2*peerRTT + hop},
		{"a pause before", 200 * time.Millisecond, hop, kinds.DeliveredNo, relayRTT, 2*peerRTT + hop},
		{"a pause after", 0, 400 * time.Millisecond, kinds.DeliveredNo, relayRTT, 2*peerRTT + hop},
		{"a long pause", time.Second, time.Second, kinds.DeliveredNo, relayRTT, 2*peerRTT + hop},
	} {
		for _, kind := range []string{"query", "notify"} {
			t.Run(c.name+", "+kind, func(t *testing.T) {
				bubble(t, nil, func(t *testing.T, w *network) {
					r := newRelayNet("corp")
					a, b := w.relayed(r, nil)
					for range 5 {
						a.ask(b, "before")
					}
					time.Sleep(c.silent)
					b.killed(r)
					time.Sleep(c.after)
					start := time.Now()
					var err error
					if kind == "query" {
						err = a.tryAsk(b, "there?")
					} else {
						_, err = a.Send(t.Context(), b.ID(), notify("a.b"), true)
					}
					took := time.Since(start)
					outcome{err, took}.want(t, kinds.Unreachable, c.delivered, c.least, c.most)
					t.Logf("delivered %s after %.1f round trips to the relay (%.1f to the peer)", c.delivered, float64(took)/float64(relayRTT), float64(took)/float64(peerRTT))

					start = time.Now()
					outcome{a.tryAsk(b, "and now?"), time.Since(start)}.want(t, kinds.Unreachable, kinds.DeliveredNo, 0, relayRTT)
				})
			})
		}
	}
}

// TestReadAndGone: the peer reads a call, and its link ends before a packet of it leaves. The
// relay's notices are true, and the call must not say that it was not delivered.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestReadAndGone(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		a, b := w.relayed(r, nil)
		for range 5 {
			a.ask(b, "before")
		}
		time.Sleep(leastSilence - peerRTT/2) // nothing is on its way any more
		read := len(b.received())
		r.set(func() {
			r.mangle = func(p *relayPacket) []time.Duration {
				if p.from == b.ID() {
					return nil
				}
				return []time.Duration{0}
			}
		})
		time.AfterFunc(2*hop+time.Millisecond, func() { r.cut(b.ID()) })
		a.call(b.ID(), query("read")).want(t, kinds.Unreachable, kinds.DeliveredUnknown, 3*peerRTT, 10*peerRTT)
		if len(b.received()) != read+1 {
			t.Fatal("the peer has not read it: this tests nothing")
		}
	})
}

// TestHeardCallsOutlastAnAbsence: a call that the peer has acknowledged, and works on, goes on when
// the peer is away for a moment; one that was just sent ends; those that begin meanwhile send
// nothing.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestHeardCallsOutlastAnAbsence(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		a, b := w.relayed(r, slowly)
		a.ask(b, "before")
		long := a.start(b, lasting(10*time.Second))
		a.ask(b, "a moment ago")
		time.Sleep(leastSilence - peerRTT/2) // nothing is on its way any more
		again := r.forget(b.ID())
		start := time.Now()
		outcome{a.tryAsk(b, "just sent"), 0}.want(t, kinds.Unreachable, kinds.DeliveredUnknown, 0, 0)
		if took := time.Since(start); took > 3*peerRTT+2*relayRTT {
			t.Errorf("it took %v", took)
		}
		start = time.Now()
		outcome{a.tryAsk(b, "meanwhile"), 0}.want(t, kinds.Unreachable, kinds.DeliveredNo, 0, 0)
		if took := time.Since(start); took > 2*relayRTT {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Second)
		again()
		time.Sleep(refusedMemory)
		a.ask(b, "after") // on a connection of its own
		(<-long).answered(t, 10*time.Second, 10*time.Second+peerRTT)
		time.Sleep(5 * time.Second)
		if n := len(a.listConns()); n != 1 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// TestMessageThatHasNotLeftWhole: the peer is killed while a message waits for its window. The
// message is not delivered, whatever is known of the peer.
func TestMessageThatHasNotLeftWhole(t *testing.T) {
	for _, relayed := range []bool{true, false} {
		for _, deadline := range []time.Duration{0, time.Second} {
			bubble(t, nil, func(t *testing.T, w *network) {
				var a, b *side
				kill := func() { b.kill() }
				if relayed {
					r := newRelayNet("corp")
					a, b = w.relayed(r, nil)
					kill = func() { b.killed(r) }
				} else {
					a, b = w.pair(nil)
				}
				a.ask(b, "before")
				kill()
				ctx := t.Context()
				if deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, deadline)
					defer cancel()
				}
				large := strings.Repeat("!", 1<<20)
				_, _, err := a.Exchange(ctx, b.ID(), query(large[:100<<10]))
				if e := kinds.AsError(err); e.Delivered() != kinds.DeliveredNo {
					t.Errorf("relay %v, deadline %v: a query: %v, delivered %q", relayed, deadline, err, e.Delivered())
				}
			})
		}
	}
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		a, b := w.relayed(r, nil)
		a.ask(b, "before")
		b.killed(r)
		env := notify("a.b")
		env.Payload = wire.Payload(`{"topic":"a.b","data":"` + strings.Repeat("!", 100<<10) + `"}`)
		for _, wait := range []bool{true, false} {
			if _, err := a.Send(t.Context(), b.ID(), env, wait); err == nil || kinds.AsError(err).Delivered() != kinds.DeliveredNo {
				t.Errorf("wait %v: %v", wait, err)
			}
		}
	})
}
