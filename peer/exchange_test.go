package peer

import (
	"context"
	"testing"
	"time"

	"github.com/acpd/acpd/kinds"
)

func TestExchange(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(nil)
		a.ask(b, "what is due today?")
		b.ask(a, "and tomorrow?")
		_, rtt, err := a.Exchange(context.Background(), b.ID(), query("how far?"))
		if err != nil || rtt < 2*latency || rtt > 4*latency {
			t.Errorf("rtt %v, err %v; want about %v", rtt, err, 2*latency)
		}
		if n := len(a.Peers()); n != 1 {
			t.Errorf("%d peers connected, want 1", n)
		}
	})
}

func TestSend(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(nil)
		for _, wait := range []bool{true, false} {
			got, err := a.Send(context.Background(), b.ID(), notify("build.done"), wait)
			if want := map[bool]Outcome{true: Handed, false: Sent}[wait]; err != nil || got != want {
				t.Errorf("wait %v: got %q, %v; want %q", wait, got, err, want)
			}
		}
		time.Sleep(10 * latency)
		if n := len(b.received()); n != 2 {
			t.Errorf("%d messages arrived, want 2", n)
		}
	})
}

func TestStrangerIsPending(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.side(func(c *Config) { c.Name = "laptop" }), w.side(nil)
		a.trusts(b, "desk")
		w.start()
		a.serve()
		b.serve()
		err := a.tryAsk(b, "who are you?")
		if code(err) != kinds.NotTrusted {
			t.Fatalf("got %v, want not_trusted", err)
		}
		waiting := b.Pending()
		if len(waiting) != 1 || waiting[0].ID != a.ID() || waiting[0].Claim != "laptop" || waiting[0].Addr != a.Addr().String() {
			t.Fatalf("pending: %+v", waiting)
		}
		if b.saw(EventPending) != 1 {
			t.Error("no event pending")
		}
		b.trusts(a, "laptop")
		b.Connect(a.ID())
		time.Sleep(time.Second)
		a.ask(b, "and now?")
		if len(b.Pending()) != 0 {
			t.Error("still pending")
		}
	})
}

func TestUntrustCutsTheConnection(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(nil)
		a.ask(b, "hello")
		if err := b.trust.Untrust(a.ID()); err != nil {
			t.Fatal(err)
		}
		b.Disconnect(a.ID())
		time.Sleep(10 * latency)
		if len(a.Peers()) != 0 || len(b.Peers()) != 0 {
			t.Error("still connected")
		}
		if err := a.tryAsk(b, "still there?"); code(err) != kinds.NotTrusted {
			t.Errorf("got %v, want not_trusted", err)
		}
		if len(b.Pending()) != 0 {
			t.Error("a blocked key became pending")
		}
		if a.saw(EventRefused) == 0 || b.saw(EventRefused) != 0 {
			t.Errorf("refused: %d and %d times", a.saw(EventRefused), b.saw(EventRefused))
		}
	})
}
