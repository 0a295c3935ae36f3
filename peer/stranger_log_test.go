package peer

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/budget"
)

// TestStrangersOnARelayTakeNobodysLines: strangers on a relay use up the lines and events of all
// strangers there; one on UDP is told of at once all the same.
// holds: security.md#against-strangers
// holds: security.md#the-budget
func TestStrangersOnARelayTakeNobodysLines(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var text lockedBuffer
		r := newRelayNet("corp")
		b := w.side(func(c *Config) {
			c.Logger = slog.New(slog.NewTextHandler(&text, nil))
			r.joined(nil)(c)
		})
		var relayed []*side
		for range int(budget.LogLines.Peer) {
			s := w.side(r.joined(nil))
			s.knows(b.cfg.Key, "reviewer")
			relayed = append(relayed, s)
		}
		direct := w.side(nil)
		direct.trusts(b, "reviewer")
		w.start()
		b.serve()
		for _, s := range append(relayed, direct) {
			s.serve()
		}
		for _, s := range relayed {
			if s.tryAsk(b, "?") == nil {
				t.Fatal("a stranger is answered")
			}
			time.Sleep(time.Second) // more often it would be refused before its hello
		}
		if n := strings.Count(text.String(), "peer refused") + b.saw(EventPending); n != int(budget.LogLines.Peer) {
			t.Fatalf("strangers on the relay have %d lines and events", n)
		}
		lines, events := strings.Count(text.String(), "\n"), b.saw(EventPending)
		if direct.tryAsk(b, "?") == nil {
			t.Fatal("a stranger is answered")
		}
		if n := strings.Count(text.String(), "\n"); n != lines+1 || b.saw(EventPending) != events+1 {
			t.Errorf("of the stranger on UDP %d lines and %d events tell", n-lines, b.saw(EventPending)-events)
		}
		time.Sleep(2 * time.Minute)
		if !strings.Contains(text.String(), `msg="lines left out" peer=strangers `) {
			t.Errorf("nothing sums up what was left out: %s", text.String())
		}
	})
}
