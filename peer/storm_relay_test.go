package peer

import (
	"testing"
	"time"

	"github.com/acpd/acpd/integration/storm"
)

// TestWhatCallsSayOverARelayIsTrue has the two sides on a relay that loses, copies, delays and
// damages packets, says of those who are there that they are not, and forgets some; links are
// removed and come back. In one weather of three there is a direct path too.
// holds: security.md#against-strangers
func TestWhatCallsSayOverARelayIsTrue(t *testing.T) {
	storm.RunStorm(t, 500, relayFaultNames, func(t *testing.T, sw *storm.Weather) {
		w := newWeather(sw)
		w.kinds, w.relay, w.direct = int(relayFaults), newRelayNet("corp"), w.DrawBelow(3) == 0
		w.relay.mangle = w.air.mangle
		bubble(t, &w.air, func(t *testing.T, n *network) { w.pass(t, n) })
	})
}

// join has a side take part in the relay, if there is one.
func (w *weather) join(c *Config) {
	if w.relay != nil {
		w.relay.joined(nil)(c)
	}
}

// addrs returns the UDP addresses at which the near side dials the far one.
func (w *weather) addrs(far *side) []string {
	if !w.direct {
		return nil
	}
	return []string{far.Addr().String()}
}

// kill ends a process without a word.
func (w *weather) kill(s *side) {
	if w.relay != nil {
		w.relay.cut(s.ID())
	}
	s.kill()
}

// clear ends all faults.
func (w *weather) clear() {
	w.air.clear()
	if w.relay != nil {
		w.relay.set(func() { w.relay.out, w.relay.lies = false, false })
	}
}

// troubleRelay is one thing that goes wrong with the relay, seen by one side.
func (w *weather) troubleRelay(f fault, one *side) {
	r := w.relay
	switch f {
	case outage:
		r.set(func() { r.out = true })
		time.Sleep(w.ms(4000))
		r.set(func() { r.out = false })
		r.interrupt(one.ID())
	case lies:
		r.set(func() { r.lies = true })
		time.Sleep(w.ms(2000))
		r.set(func() { r.lies = false })
	case forgetting:
		again := r.forget(one.ID())
		time.Sleep(w.ms(1000))
		again()
	case unlinking:
		one.RemoveLink(r.name)
		time.Sleep(w.ms(1000))
		if err := one.AddLink(r.link(one.ID())); err != nil {
			one.t.Error(err)
		}
	}
}

// mangle does to a packet on the relay what the weather is like.
func (a *air) mangle(p *relayPacket) []time.Duration {
	a.mu.Lock()
	is := a.is
	a.mu.Unlock()
	draw := a.w.DrawBelow(100)
	switch {
	case is[loss] && draw < 20:
		return nil
	case is[duplication] && draw < 30:
		return []time.Duration{0, a.w.ms(100)}
	case is[corruption] && draw < 10:
		p.data[a.w.DrawBelow(len(p.data))] ^= byte(1 + a.w.DrawBelow(255))
	case is[reordering] && draw < 30:
		return []time.Duration{a.w.ms(30)}
	}
	return []time.Duration{0}
}
