package peer

import (
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
)

// A peer that comes by itself while this node pauses before its next dial is not proved again.
func TestReconnectLeavesNewConnAlone(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.side(nil), w.side(nil)
		if _, err := a.trust.Trust(identity.Peer{ID: b.ID(), Name: "reviewer"}); err != nil {
			t.Fatal(err)
		}
		b.trusts(a, "planner")
		w.serve(a, b)
		a.Connect(b.ID()) // knows no address
		time.Sleep(time.Minute)
		b.Connect(a.ID())
		time.Sleep(2 * maxBackoff)
		state := a.findState(b.ID())
		c := state.current.Load()
		if c == nil {
			t.Fatal("not connected")
		}
		state.mu.Lock()
		runs := state.retry != nil
		state.mu.Unlock()
		c.mu.Lock()
		pings := c.live.pings
		c.mu.Unlock()
		if runs || pings > 0 {
			t.Errorf("the goroutine that reconnects runs: %v; %d pings", runs, pings)
		}
	})
}
