package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"

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
				if e := kinds.AsError(err); err == nil || try == 20 || e.Code != kinds.Timeout && e.Code != kinds.Unreachable {
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

// FuzzStreams sends raw bytes on a stream of a live node. Nothing but a control
// stream, or a second one, may end the connection, and nothing the node.
func FuzzStreams(f *testing.F) {
	n := newSide(f, loopback(nil)).serve()
	for _, r := range []*handshakeRate{n.udp.gates.handshakes.unproved, n.udp.gates.handshakes.proved, n.udp.gates.handshakes.known} { // each input may need a connection
		r.mu.Lock()
		r.perSource, r.all = 1<<20, rate.NewLimiter(rate.Inf, 0)
		r.mu.Unlock()
	}
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	h := newHost(f, socket)
	key := newKey(f)
	n.knows(key, "planner")
	c := h.dial(n, key)
	c.greet()
	another := newKey(f) // so that its connections do not replace that one
	n.knows(another, "laptop")
	const uni, bidi, control, first = 0, 1, 2, 3
	exchange := func(kind, payload string) []byte {
		return append([]byte{byte(wire.StreamExchange)}, c.envelope(kind, payload, nil)...)
	}
	message := func(kind, payload string) []byte {
		return append([]byte{byte(wire.StreamMessage)}, c.envelope(kind, payload, nil)...)
	}
	f.Add(byte(bidi), exchange(kinds.KindPing, ""))
	f.Add(byte(bidi), exchange(kinds.KindQuery, `{"question":"x"}`))
	f.Add(byte(bidi), exchange("dance", `{}`))
	f.Add(byte(bidi), []byte{byte(wire.StreamMail), 1})
	f.Add(byte(bidi), []byte{})
	f.Add(byte(uni), message(kinds.KindNotify, `{"topic":"a.b"}`))
	f.Add(byte(uni), message(kinds.KindQuery, `{"topic":"a.b"}`))
	f.Add(byte(uni), []byte{0x7f})
	f.Add(byte(uni), []byte{})
	for _, i := range []wire.Item{c.hello(), &wire.Receipt{Stream: 3}, &wire.Receipt{Stream: 3, State: wire.Refused, Code: "invalid", Message: "x"}, &wire.Goaway{}, &wire.Ping{N: 1, Pad: []byte{0}}, &wire.Pong{N: 9}, &wire.Done{}} {
		f.Add(byte(control), item(f, i))
	}
	f.Add(byte(first), append([]byte{byte(wire.StreamControl)}, item(f, c.hello())...))
	f.Add(byte(first), message(kinds.KindNotify, `{"topic":"a.b"}`))

	f.Fuzz(func(t *testing.T, where byte, b []byte) {
		fresh := func() *raw {
			return (&host{t: t, tr: h.tr}).dial(n, another)
		}
		ends := func(c *raw) {
			t.Helper()
			<-c.qc.Context().Done()
			err := context.Cause(c.qc.Context())
			app, closed := errors.AsType[*quic.ApplicationError](err)
			_, reset := errors.AsType[*quic.StatelessResetError](err)
			switch {
			case closed && app.Remote:
			case reset: // what said why was lost on the way
			default:
				t.Errorf("ended with %v", err)
			}
		}
		c.t = t
		switch where % 4 {
		case uni:
			if len(b) > 0 && b[0] == byte(wire.StreamControl) {
				return // a second control stream
			}
			c.receipt(c.sendUni(b...))
		case bidi:
			s := c.openBidi(b...)
			s.Close()
			c.reply(s)
		case control:
			c := fresh()
			c.sendHello(func(h *wire.Hello) { h.Boot = wire.Boot{1} })
			c.readHello()
			c.out.Write(b)
			c.out.Close()
			ends(c)
		case first:
			c := fresh()
			if s, err := c.qc.OpenUniStream(); err == nil {
				s.Write(b) // it may be refused before it is out
				s.Close()
			}
			ends(c)
		}
		c.alive()
	})
}
