package peer

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestAcceptRounds: an accept loop that is asked goes round and still accepts; one that does
// not run is found out.
func TestAcceptRounds(t *testing.T) {
	t.Parallel()
	a, b := newSide(t, loopback(nil)), newSide(t, loopback(nil))
	a.trusts(b, "reviewer")
	b.trusts(a, "planner")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.AwaitAcceptRound(short); err == nil {
		t.Error("before Serve the loop goes round")
	}
	a.serve()
	b.serve()
	for range 100 {
		if err := b.AwaitAcceptRound(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a.ask(b, "Are you there?")
}

// TestCheckAnswers: a socket that nobody reads is found, whatever the address it listens on.
func TestCheckAnswers(t *testing.T) {
	t.Parallel()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := (&Node{socket: silent, probe: probeAddr}).CheckAnswers(ctx); err == nil {
		t.Error("a socket that nobody reads answers")
	}
	for _, listen := range []string{":0", "127.0.0.1:0", "0.0.0.0:0"} {
		n := newSide(t, func(c *Config) { c.Listen = listen }).serve()
		if err := n.CheckAnswers(t.Context()); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
}
