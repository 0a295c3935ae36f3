package peer

import (
	"errors"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/kinds"
)

// TestKilledOnTheRelayWhileIdle: the next call to a peer that was killed proves the connection in
// little more than a round trip, and the dial takes one to the relay.
func TestKilledOnTheRelayWhileIdle(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		a, b := w.relayed(r, nil)
		a.ask(b, "before")
		time.Sleep(time.Second)
		b.killed(r)
		time.Sleep(time.Second)
		a.call(b.ID(), query("nobody there?")).want(t, kinds.Unreachable, kinds.DeliveredNo, relayRTT, 2*peerRTT+hop)
	})
}

// TestKilledOnTheRelayUnderACall: whenever a peer is killed, the calls to it end soon, and say that
// they do not know.
func TestKilledOnTheRelayUnderACall(t *testing.T) {
	for _, after := range []time.Duration{0, 90 * time.Millisecond, 800 * time.Millisecond, 3900 * time.Millisecond, 4010 * time.Millisecond, time.Minute} {
		bubble(t, nil, func(t *testing.T, w *network) {
			r := newRelayNet("corp")
			a, b := w.relayed(r, slowly)
			a.ask(b, "before")
			call := a.start(b, lasting(5*time.Minute))
			time.Sleep(after)
			b.killed(r)
			killed := time.Now()
			o := <-call
			outcome{o.err, time.Since(killed)}.want(t, kinds.Unreachable, kinds.DeliveredUnknown, 0, 3500*time.Millisecond)
		})
	}
}

// TestFalseNotices has a relay that says of every packet that nobody took it: calls go on, open or
// not, busy or after a pause, and each connection is proven once a second at most.
// holds: security.md#against-strangers
// holds: security.md#against-a-relay-and-those-who-share-it
func TestFalseNotices(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		a, b := w.relayed(r, slowly)
		a.ask(b, "before")
		long := a.start(b, lasting(time.Minute))
		r.set(func() { r.lies = true })
		const span = 60
		c := a.listConns()[0]
		pings := func() uint64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.live.pings
		}
		before, start := pings(), time.Now()
		pauses := uint64(0)
		for i := 0; time.Since(start) < span*time.Second; i++ {
			a.ask(b, "busy")
			if i%50 == 0 {
				pauses++
				time.Sleep(2 * silentAfter)
			}
			time.Sleep(hop)
		}
		// Beside those of proofs that the relay starts, a ping goes out every 4 s, and before the first
		// call after a pause.
		if n := pings() - before; n > span+span/4+pauses+2 || n < span/2 {
			t.Errorf("%d pings in %d s", n, span)
		}
		(<-long).answered(t, time.Minute, time.Minute+peerRTT)
		for range 20 {
			time.Sleep(2 * silentAfter) // nothing is open: now a notice could end the connection
			a.ask(b, "after a pause")
		}
		if n, _ := r.count(); n < 1000 || a.saw(EventUp) != 1 || len(a.listConns()) != 1 || a.listConns()[0] != c {
			t.Errorf("%d notices; the connection has changed", n)
		}
	})
}

// TestFalseNoticesWhileSlow has the relay say so while it takes long to pass packets on: a call that
// is open is worth the wait, from here or from the peer.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestFalseNoticesWhileSlow(t *testing.T) {
	for _, ours := range []bool{true, false} {
		bubble(t, nil, func(t *testing.T, w *network) {
			r := newRelayNet("corp")
			a, b := w.relayed(r, slowly)
			a.ask(b, "before")
			from, to := a, b
			if !ours {
				from, to = b, a
			}
			call := from.start(to, lasting(20*time.Second))
			r.set(func() {
				r.lies = true
				r.mangle = func(*relayPacket) []time.Duration { return []time.Duration{500 * time.Millisecond} }
			})
			for range 10 {
				time.Sleep(time.Second)
				for _, c := range a.listConns() {
					c.joinOrStartProof()
				}
			}
			(<-call).answered(t, 20*time.Second, 21*time.Second)
		})
	}
}

// TestFalseNoticesMeetAStall: once a false word has been refuted, one that meets a peer that is slow for
// a moment ends no connection, though no call is open.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestFalseNoticesMeetAStall(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		a, b := w.relayed(r, nil)
		a.ask(b, "before")
		r.set(func() { r.lies = true })
		c := a.listConns()[0]
		for _, stall := range []time.Duration{0, time.Second / 2, 0, time.Second / 2} {
			r.set(func() {
				r.mangle = func(*relayPacket) []time.Duration { return []time.Duration{stall} }
			})
			c.joinOrStartProof()
			time.Sleep(5 * time.Second)
		}
		if len(a.listConns()) != 1 || a.listConns()[0] != c || a.saw(EventUp) != 1 || a.saw(EventDown) != 0 {
			t.Error("the connection has changed")
		}
		r.set(func() { r.lies, r.mangle = false, nil })
		a.ask(b, "as before")
		time.Sleep(time.Second)
		b.killed(r) // and the word is true now
		time.Sleep(time.Second)
		a.call(b.ID(), query("nobody there?")).want(t, kinds.Unreachable, kinds.DeliveredNo, falseNoticeWait, falseNoticeWait+2*peerRTT)
	})
}

// TestNoticeOfABriefAbsence: what the relay said of a packet before is no word on a peer that has come back.
func TestNoticeOfABriefAbsence(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		a, b := w.relayed(r, nil)
		a.ask(b, "before")
		l := r.at[b.ID()]
		r.cut(b.ID())
		a.listConns()[0].sendPing(0) // it is lost, and provokes a notice
		time.Sleep(hop + hop/2)
		l.attach(l.node)
		time.Sleep(10 * time.Second)
		a.ask(b, "after")
		if a.saw(EventUp) != 1 || a.saw(EventDown) != 0 {
			t.Error("the connection has changed")
		}
	})
}

// TestInterruption: after a word of the link that packets were lost, connections are proven; those
// whose peer is gone end though nobody asks for them.
func TestInterruption(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		r.silent = true
		a, b, c := w.side(r.joined(nil)), w.side(r.joined(nil)), w.side(r.joined(nil))
		for _, s := range []*side{b, c} {
			a.knows(s.cfg.Key, "peer-"+s.ID().Label())
			s.knows(a.cfg.Key, "planner")
		}
		w.serve(a, b, c)
		a.ask(b, "there?")
		a.ask(c, "there?")
		time.Sleep(time.Second)
		b.killed(r)
		r.interrupt(a.ID())
		time.Sleep(proofTime + peerRTT)
		if _, ok := a.Peer(b.ID()); ok {
			t.Error("the peer that is gone is connected")
		}
		if _, ok := a.Peer(c.ID()); !ok {
			t.Error("the other is not")
		}
	})
}

// TestCloseOfALinkIsHeard: the last packets of a node that closes still leave.
func TestCloseOfALinkIsHeard(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		a, b := w.relayed(r, nil)
		a.ask(b, "before")
		c := a.listConns()[0]
		b.Close()
		time.Sleep(peerRTT)
		if app, ok := errors.AsType[*quic.ApplicationError](c.endCause()); !ok || !app.Remote || app.ErrorCode != closeShutdown {
			t.Errorf("the peer closed, and the connection ended with %v", c.endCause())
		}
		<-b.done
		b.stop()
		b.stop = nil
	})
}
