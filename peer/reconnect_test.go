package peer

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// A peer that comes by itself while this node pauses before its next dial is not proved again.
func TestReconnectLeavesNewConnAlone(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.side(nil), w.side(nil)
		if _, err := a.trust.Trust(identity.Peer{ID: b.ID(), Name: "reviewer"}); err != nil {
			t.Fatal(err)
		}
		b.trusts(a, "planner")
		w.start()
		a.serve()
		b.serve()
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

// TestAddressIsTriedAtOnce: that there was no address a moment ago keeps no call from one that
// there is now.
func TestAddressIsTriedAtOnce(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var now atomic.Pointer[[]string]
		now.Store(new([]string))
		a, b := w.side(func(c *Config) { c.Addrs = func(identity.ID) []string { return *now.Load() } }), w.side(nil)
		a.trust.Trust(identity.Peer{ID: b.ID(), Name: "reviewer"})
		b.trusts(a, "planner")
		w.start()
		a.serve()
		b.serve()
		if err := a.tryAsk(b, "?"); kinds.AsError(err).Code != kinds.Unreachable || !strings.Contains(err.Error(), "no address") {
			t.Fatalf("without an address: %v", err)
		}
		now.Store(&[]string{b.Addr().String()})
		if err := a.tryAsk(b, "?"); err != nil {
			t.Errorf("with one, at once: %v", err)
		}
	})
}
