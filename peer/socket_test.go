package peer

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// What runs here has real sockets on loopback. Every goroutine must be gone at
// the end.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func loopback(edit func(*Config)) func(*Config) {
	return func(c *Config) {
		c.Listen = "127.0.0.1:0"
		if edit != nil {
			edit(c)
		}
	}
}

func loopbackPair(t testing.TB, edit func(*Config)) (a, b *side) {
	a, b = newSide(t, loopback(edit)), newSide(t, loopback(edit))
	a.trusts(b, "reviewer")
	b.trusts(a, "planner")
	return a.serve(), b.serve()
}

// soon is far less than it takes to notice that nobody is there, which is 8 s of silence,
// and more than a slow machine needs for what asks nobody.
const soon = 5 * time.Second

func TestNothingListens(t *testing.T) {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := socket.LocalAddr().String()
	socket.Close()
	a := newSide(t, loopback(nil)).serve()
	id := newKey(t).ID()
	if _, err := a.trust.Trust(identity.Peer{ID: id, Name: "reviewer", Addrs: []string{free}}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, _, err = a.Exchange(t.Context(), id, query("?"))
	outcome{err, time.Since(start)}.want(t, kinds.Unreachable, kinds.DeliveredNo, 0, soon)
	if !strings.Contains(err.Error(), "nothing listens") {
		t.Errorf("got %v", err)
	}
	start = time.Now()
	_, err = a.Join(t.Context(), identity.Invitation{ID: id, Addrs: []string{free}, Token: [16]byte{1}})
	outcome{err, time.Since(start)}.want(t, kinds.Unreachable, kinds.DeliveredNo, 0, soon)
}

// kill ends a node as the end of its process would: without a word.
func (s *side) kill() {
	s.udp.socket.Close()
	<-s.done
	s.stop()
	s.stop = nil
}

// silent makes a connection look as if nothing had come for a while.
func (s *side) silent() {
	for _, c := range s.listConns() {
		c.lastHeard.Store(-int64(time.Hour))
	}
}

func TestProcessRestart(t *testing.T) {
	a, b := newSide(t, loopback(nil)), newSide(t, loopback(nil))
	a.trusts(b, "reviewer")
	b.trusts(a, "planner")
	a.serve()
	b.serve()
	a.ask(b, "first")

	b.kill()
	a.silent()
	a.call(b.ID(), query("nobody there?")).want(t, kinds.Unreachable, kinds.DeliveredNo, 0, soon)

	again := newSide(t, func(c *Config) { c.Key, c.Trust, c.Listen = b.cfg.Key, b.trust, b.Addr().String() }).serve()
	a.Connect(b.ID()) // a verdict is not shared with what comes after it
	a.asksWithin(again, soon)

	again.kill()
	last := newSide(t, func(c *Config) { c.Key, c.Trust, c.Listen = b.cfg.Key, b.trust, b.Addr().String() }).serve()
	a.silent()
	a.asksWithin(last, soon)
}

// TestRestartUnderACall has the process replaced while a call is in flight: the
// stateless reset of the new one ends it, long before the 8 s of silence.
func TestRestartUnderACall(t *testing.T) {
	a, b := newSide(t, loopback(slowly)), newSide(t, loopback(slowly))
	a.trusts(b, "reviewer")
	b.trusts(a, "planner")
	a.serve()
	b.serve()
	a.ask(b, "first")
	done := make(chan outcome, 1)
	go func() {
		start := time.Now()
		_, _, err := a.Exchange(t.Context(), b.ID(), lasting(time.Minute))
		done <- outcome{err, time.Since(start)}
	}()
	for b.listConns()[0].servedNow() == 0 {
		runtime.Gosched()
	}
	b.kill()
	newSide(t, func(c *Config) { c.Key, c.Trust, c.Listen = b.cfg.Key, b.trust, b.Addr().String() }).serve()
	(<-done).want(t, kinds.Unreachable, kinds.DeliveredUnknown, 0, 6*time.Second)
}

func (c *conn) servedNow() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.inbound)
}

// TestBurst has 10,000 goroutines, or 1,000 where tests are to be short, send one message each. A busy machine may need
// longer than a receipt, or a connection, is waited for; then the caller repeats with the same id,
// and what it was told must be so: "no" never came, everything else once.
func TestBurst(t *testing.T) {
	messages := 10_000
	if testing.Short() {
		messages = 1000
	}
	a, b := loopbackPair(t, nil)
	a.ask(b, "connect")
	var sends sync.WaitGroup
	var unknown sync.Map // ids that may have come more than once
	for i := range messages {
		sends.Go(func() {
			env := notify(fmt.Sprint("n", i))
			for try := 1; ; try++ {
				got, err := a.Send(t.Context(), b.ID(), env, true)
				if err == nil && got == Handed {
					return
				}
				if e := kinds.AsError(err); err == nil || try == 20 || !slices.Contains([]kinds.Code{kinds.Timeout, kinds.Unreachable, kinds.Cancelled}, e.Code) { // cancelled: the peer's receipt for what was given up
					t.Errorf("%d: %q, %v", i, got, err)
					return
				} else if e.Delivered() != kinds.DeliveredNo {
					unknown.Store(env.ID, true)
				}
			}
		})
	}
	sends.Wait()
	seen := make(map[wire.MessageID]int)
	for _, env := range b.received() {
		if env.Kind == kinds.KindNotify {
			seen[env.ID]++
		}
	}
	for id, n := range seen {
		if _, may := unknown.Load(id); n > 1 && !may {
			t.Errorf("%v came %d times", id, n)
		}
	}
	if len(seen) != messages {
		t.Errorf("%d of %d came", len(seen), messages)
	}
}

// TestAbuse has many goroutines call, send, open, connect and ask while
// connections are closed under them; it is there for the race detector.
func TestAbuse(t *testing.T) {
	streams := func(s *side) {
		s.Handle(wire.StreamMail, "mail", func(_ context.Context, _ identity.ID, st *Stream) { io.Copy(st, st) })
	}
	a, b := newSide(t, loopback(nil)), newSide(t, loopback(nil))
	streams(a)
	streams(b)
	a.trusts(b, "reviewer")
	b.trusts(a, "planner")
	a.serve()
	b.serve()
	end := time.Now().Add(time.Second)
	var all sync.WaitGroup
	every := func(f func()) {
		all.Go(func() {
			for time.Now().Before(end) {
				f()
			}
		})
	}
	for range 4 {
		every(func() { a.tryAsk(b, "x") })
		every(func() { b.tryAsk(a, "x") })
		every(func() { a.Send(t.Context(), b.ID(), notify("a.b"), true) })
		every(func() { b.Send(t.Context(), a.ID(), notify("a.b"), false) })
		every(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			a.Exchange(ctx, b.ID(), query("x"))
		})
		every(func() {
			s, err := a.OpenStream(t.Context(), b.ID(), wire.StreamMail)
			if err != nil {
				return
			}
			s.Write([]byte("hello"))
			s.CloseWrite()
			io.ReadAll(s)
			s.Close()
		})
	}
	every(func() { a.Connect(b.ID()); b.Connect(a.ID()) })
	every(func() {
		a.Peers()
		b.Peer(a.ID())
		a.Pending()
	})
	all.Go(func() {
		for _, c := range b.listConns() {
			c.close(closeReplaced, "test")
		}
		a.Disconnect(b.ID())
		a.Connect(b.ID())
	})
	all.Wait()
	a.Connect(b.ID())
	a.ask(b, "still there?")
}
