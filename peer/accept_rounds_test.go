package peer

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// TestAcceptRoundIsHeldUp: the accept loop goes round when it is asked, idle or not, but not while
// it is held up.
func TestAcceptRoundIsHeldUp(t *testing.T) {
	desk, laptop := newSide(t, loopback(nil)), newSide(t, loopback(nil)).serve()
	laptop.trusts(desk, "desk")
	desk.trusts(laptop, "laptop")
	moves := func(patience time.Duration) bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return desk.AwaitAcceptRound(ctx) == nil
	}
	if moves(50 * time.Millisecond) {
		t.Error("it moves before Serve")
	}
	desk.serve()
	for range 3 {
		if !moves(await.Patience) {
			t.Fatal("an idle one does not move")
		}
	}
	desk.Node.mu.Lock() // which it needs to hand on a connection
	release := sync.OnceFunc(desk.Node.mu.Unlock)
	defer release()
	asked := make(chan error, 1)
	go func() { asked <- laptop.tryAsk(desk, "are you there?") }()
	await.Until(t, "it stands still", func() bool { return !moves(100 * time.Millisecond) })
	release()
	if !moves(await.Patience) {
		t.Error("it does not move again")
	}
	await.Receive(t, "the call ends", asked)
	laptop.ask(desk, "what is due today?")
	if !moves(await.Patience) {
		t.Error("it does not move beside connections")
	}
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
	if err := (&Node{udp: &endpoint{socket: silent, prober: hostProber(probeAddr)}}).CheckAnswers(ctx); err == nil {
		t.Error("a socket that nobody reads answers")
	}
	for _, listen := range []string{":0", "127.0.0.1:0", "0.0.0.0:0"} {
		n := newSide(t, func(c *Config) { c.Listen = listen }).serve()
		if err := n.CheckAnswers(t.Context()); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
}
