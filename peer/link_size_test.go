package peer

import (
	"strings"
	"testing"
	"time"
)

// TestBulkOnALink: packets on a link have linkPacketSize bytes at most, bulk has packets of that size,
// and a call that sends faster than its pace waits for its timer (see linkPacketSize).
func TestBulkOnALink(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("corp")
		a, b := w.relayed(r, nil)
		sizes := make(map[int]int)
		r.set(func() {
			r.mangle = func(p *relayPacket) []time.Duration {
				sizes[len(p.data)]++
				return []time.Duration{0}
			}
		})
		const text = 400_000
		for range 3 {
			a.ask(b, strings.Repeat("x", text))
		}
		r.set(func() { r.mangle = nil })
		for size := range sizes {
			if size > linkPacketSize {
				t.Errorf("a packet of %d bytes", size)
			}
		}
		if full := sizes[linkPacketSize]; full < 3*text/linkPacketSize*3/4 {
			t.Errorf("%d packets are full: %v", full, sizes)
		}
	})
}
