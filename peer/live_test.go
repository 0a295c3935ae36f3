package peer

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// valve is a network that can be shut.
type valve struct {
	simnet.PerfectRouter
	shut atomic.Bool
	lost atomic.Int32 // packets, while it was shut
}

func (v *valve) SendPacket(p simnet.Packet) error {
	if v.shut.Load() {
		v.lost.Add(1)
		return nil
	}
	return v.PerfectRouter.SendPacket(p)
}

// slowly answers queries after their deadline_ms, unless they are given up; pings
// at once.
func slowly(c *Config) {
	c.Exchange = func(ctx context.Context, env *Passing) (*wire.Envelope, error) {
		if env.Kind == kinds.KindQuery {
			q, err := kinds.ParsePayload[kinds.Query](env.Payload)
			if err != nil {
				return nil, err
			}
			if q.DeadlineMS > 0 {
				select {
				case <-time.After(time.Duration(q.DeadlineMS) * time.Millisecond):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		}
		return echo(ctx, env)
	}
}

// lasting is a query whose answer takes d of a node that answers slowly.
func lasting(d time.Duration) *wire.Envelope {
	return &wire.Envelope{Kind: kinds.KindQuery, Payload: kinds.EncodePayload(&kinds.Query{Question: "how long?", DeadlineMS: uint64(d.Milliseconds())})}
}

// outcome says how a call ended.
type outcome struct {
	err  error
	took time.Duration
}

// start runs an exchange beside the test.
func (s *side) start(to *side, env *wire.Envelope) <-chan outcome {
	done := make(chan outcome, 1)
	go func() { done <- s.call(to.ID(), env) }()
	time.Sleep(10 * latency) // it is there
	return done
}

func (o outcome) want(t testing.TB, c kinds.Code, d kinds.Delivered, least, most time.Duration) {
	t.Helper()
	if e := kinds.AsError(o.err); o.err == nil || e.Code != c || e.Delivered() != d {
		t.Errorf("got %v, delivered %q; want %s, delivered %q", o.err, e.Delivered(), c, d)
	}
	if o.took < least || o.took > most {
		t.Errorf("it took %v, want %v to %v", o.took, least, most)
	}
}

func (o outcome) answered(t testing.TB, least, most time.Duration) {
	t.Helper()
	if o.err != nil || o.took < least || o.took > most {
		t.Errorf("got %v after %v, want an answer after %v to %v", o.err, o.took, least, most)
	}
}

func TestPeerVanishes(t *testing.T) {
	for _, after := range []time.Duration{0, 1500 * time.Millisecond, 3900 * time.Millisecond, 4100 * time.Millisecond, time.Minute} {
		net := new(valve)
		bubble(t, net, func(t *testing.T, w *network) {
			a, b := w.pair(slowly)
			call := a.start(b, lasting(5*time.Minute))
			time.Sleep(after)
			net.shut.Store(true)
			start := time.Now()
			o := <-call
			o.took = time.Since(start)
			o.want(t, kinds.Unreachable, kinds.DeliveredUnknown, time.Second, 8*time.Second)

			net.shut.Store(false)
			time.Sleep(2 * time.Second)
			a.ask(b, "back again?")
		})
	}
	t.Run("a new call", func(t *testing.T) {
		for _, idle := range []time.Duration{0, 600 * time.Millisecond, 5 * time.Second} {
			net := new(valve)
			bubble(t, net, func(t *testing.T, w *network) {
				a, b := w.pair(nil)
				a.ask(b, "there?")
				time.Sleep(time.Second)
				net.shut.Store(true)
				time.Sleep(idle)
				a.call(b.ID(), query("still there?")).want(t, kinds.Unreachable, kinds.DeliveredNo, 0, 3*time.Second)
			})
		}
	})
	t.Run("a new call after a word", func(t *testing.T) {
		net := new(valve)
		bubble(t, net, func(t *testing.T, w *network) {
			a, b := w.pair(nil)
			a.ask(b, "there?")
			net.shut.Store(true) // within 500 ms: the byte may have left
			a.call(b.ID(), query("still there?")).want(t, kinds.Unreachable, kinds.DeliveredUnknown, 0, 8*time.Second)
		})
	})
	t.Run("idle", func(t *testing.T) {
		for _, after := range []time.Duration{time.Second, 5900 * time.Millisecond, time.Minute} {
			net := new(valve)
			bubble(t, net, func(t *testing.T, w *network) {
				a, b := w.pair(nil)
				a.ask(b, "there?")
				time.Sleep(after)
				net.shut.Store(true)
				time.Sleep(20 * time.Second)
				if len(a.Peers()) != 0 || len(b.Peers()) != 0 || a.saw(EventDown) != 1 || b.saw(EventDown) != 1 {
					t.Errorf("after %v: still connected after 20 s", after)
				}
			})
		}
	})
}

// TestCallDuringADial has the network come back while a dial is under way whose
// next packet is far off: a call that joins it has its answer all the same.
func TestCallDuringADial(t *testing.T) {
	for after := 100 * time.Millisecond; after < 2*handshakeTimeout; after += 100 * time.Millisecond {
		net := new(valve)
		bubble(t, net, func(t *testing.T, w *network) {
			a, b := w.pair(nil)
			a.ask(b, "there?")
			a.listConns()[0].close(closeShutdown, "test")
			net.shut.Store(true)
			time.Sleep(2 * shareVerdict)
			call := a.start(b, query("still there?"))
			time.Sleep(after)
			net.shut.Store(false)
			if state := a.findOrCreateState(b.ID()); state.dialling() {
				start := time.Now()
				err := a.tryAsk(b, "back again?")
				outcome{err, time.Since(start)}.answered(t, 0, 2*time.Second)
			}
			<-call
		})
	}
}

func (state *peerState) dialling() bool {
	state.mu.Lock()
	defer state.mu.Unlock()
	return state.dial != nil
}

// TestPauseDoesNotKill stops every packet for 3 s, which a call in flight and an
// idle connection survive.
func TestPauseDoesNotKill(t *testing.T) {
	for _, busy := range []bool{true, false} {
		for after := time.Second; after < 6*time.Second; after += 300 * time.Millisecond {
			net := new(valve)
			bubble(t, net, func(t *testing.T, w *network) {
				a, b := w.pair(slowly)
				a.ask(b, "there?")
				before := a.listConns()[0]
				var call <-chan outcome
				if busy {
					call = a.start(b, lasting(20*time.Second))
				}
				time.Sleep(after)
				net.shut.Store(true)
				time.Sleep(3 * time.Second)
				net.shut.Store(false)
				if busy {
					(<-call).answered(t, 20*time.Second, 24*time.Second)
				}
				time.Sleep(20 * time.Second)
				if now := a.listConns(); len(now) != 1 || now[0] != before {
					t.Errorf("busy %v, after %v: the connection did not survive", busy, after)
				}
			})
		}
	}
}

// TestStoppedProcess has a peer whose QUIC answers and whose daemon does not: two
// pings without a pong are enough.
func TestStoppedProcess(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, h := w.facing(nil)
		c := h.trusted(a)
		a.call(c.key.ID(), query("there?")).want(t, kinds.Unreachable, kinds.DeliveredUnknown, 8*time.Second, 13*time.Second)
		if got := c.closed(); got != closeDead {
			t.Errorf("close code %d", got)
		}
	})
}

func (c *conn) dones() (sent, received bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doneSent, c.doneReceived
}

func TestShutdownDrains(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(slowly)
		there, back := a.start(b, lasting(3*time.Second)), b.start(a, lasting(2*time.Second))
		a.ask(b, "quick")
		ca, cb := a.listConns()[0], b.listConns()[0]
		start := time.Now()
		var down sync.WaitGroup
		down.Go(b.shutdown)
		time.Sleep(10 * latency) // on the virtual clock

		if at := a.HeardAt(b.ID()); at.Before(start) {
			t.Errorf("heard at %v, before the shutdown at %v", at, start)
		}
		o := a.call(b.ID(), query("too late?"))
		o.want(t, kinds.Unreachable, kinds.DeliveredNo, 0, 20*latency)
		says(t, o.err, kinds.Unreachable, "it is shutting down; try again later")
		b.call(a.ID(), query("too late?")).want(t, kinds.Unreachable, kinds.DeliveredNo, 0, 0)
		if _, err := a.Send(t.Context(), b.ID(), notify("too.late"), true); kinds.AsError(err).Delivered() != kinds.DeliveredNo {
			t.Errorf("send: %v", err)
		}

		(<-back).answered(t, 2*time.Second, 2*time.Second+10*latency)
		(<-there).answered(t, 3*time.Second, 3*time.Second+10*latency)
		down.Wait()
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("the shutdown took %v, longer than what it waited for", took)
		}
		sa, ra := ca.dones()
		if sb, _ := cb.dones(); !sa || !sb || !ra { // a's close may overtake its done
			t.Errorf("done: sent %v and %v, received %v", sa, sb, ra)
		}
		time.Sleep(10 * latency) // on the virtual clock
		if at := a.HeardAt(b.ID()); !at.IsZero() {
			t.Errorf("heard at %v on no connection", at)
		}
	})
}

func TestShutdownResetsTheRest(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b, h := w.side(nil), w.side(slowly), w.host()
		w.meet(a, b)
		call := a.start(b, lasting(5*time.Minute))
		key := newKey(t)
		b.knows(key, "laptop")
		c := h.dial(b, key)
		c.greet()
		half := c.openBidi(byte(wire.StreamExchange), 0xa1)
		time.Sleep(10 * latency) // on the virtual clock

		start := time.Now()
		b.shutdown()
		if took := time.Since(start); took < drainTime || took > drainTime+resetTime+10*latency {
			t.Errorf("the shutdown took %v, want %v", took, drainTime)
		}
		o := <-call
		o.want(t, kinds.Unreachable, kinds.DeliveredUnknown, drainTime, drainTime+resetTime+40*latency)
		if !strings.Contains(o.err.Error(), "it shut down before it answered; repeat with the same id") || kinds.AsError(o.err).From != "" {
			t.Errorf("got %v", o.err)
		}
		_, err := c.reply(half)
		resetWith(t, err, streamGoingAway)
		if got := c.closed(); got != closeShutdown {
			t.Errorf("close code %d", got)
		}
	})
}

// TestShutdownWithADeadPeer has connections that nobody answers on: they cost the
// drain its time, and no more.
func TestShutdownWithADeadPeer(t *testing.T) {
	net := new(valve)
	bubble(t, net, func(t *testing.T, w *network) {
		a, b := w.pair(slowly)
		call := a.start(b, lasting(time.Minute))
		net.shut.Store(true)
		start := time.Now()
		a.shutdown()
		if took := time.Since(start); took > drainTime+resetTime+time.Second {
			t.Errorf("the shutdown took %v", took)
		}
		(<-call).want(t, kinds.Unreachable, kinds.DeliveredUnknown, 0, drainTime+resetTime+time.Second)
	})
}

// TestCloseDuringHello ends a node while hellos are awaited: it waits for none.
func TestCloseDuringHello(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, known, stranger := w.side(nil), w.host(), w.host()
		w.serve(b)
		key := newKey(t)
		b.knows(key, "planner")
		first, second := known.dial(b, key), stranger.dial(b, newKey(t))
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		b.shutdown()
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if a, b := first.closed(), second.closed(); a != closeShutdown || b != closeShutdown {
			t.Errorf("close codes %d and %d", a, b)
		}
	})
}

// What happens to a peer is told in its order, also where somebody is slow to
// listen and a new connection crosses the end of the old one.
func TestEventsInOrder(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		var mu sync.Mutex
		var order []EventType
		a := w.side(func(c *Config) {
			c.Event = func(e Event) {
				switch e.Type {
				case EventDialEnded: // on the way of the dial
					return
				case EventDown:
					time.Sleep(time.Second)
				}
				mu.Lock()
				order = append(order, e.Type)
				mu.Unlock()
			}
		})
		b := w.side(nil)
		w.meet(a, b)
		for range 2 {
			a.ask(b, "hello")
			a.Disconnect(b.ID())
			time.Sleep(10 * latency) // on the virtual clock
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if want := []EventType{EventUp, EventDown, EventUp, EventDown}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
	})
}

// TestDeadReplacedConnection has a daemon with a full window on a connection that
// its peer has forgotten: the redial is served at once.
func TestDeadReplacedConnection(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		key := newKey(t)
		for b.ID().Compare(key.ID()) > 0 { // the smaller id says goaway
			key = newKey(t)
		}
		b.knows(key, "planner")
		boot := wire.Boot{1}
		c := h.dial(b, key)
		c.sendHello(func(h *wire.Hello) { h.Boot = boot })
		c.readHello()
		for n := range uint64(64) { // the pongs fill what the client never reads
			c.write(item(t, &wire.Ping{N: n, Pad: make([]byte, 1000)}))
		}
		time.Sleep(time.Second)
		again := h.dial(b, key)
		again.sendHello(func(h *wire.Hello) { h.Boot = boot })
		again.readHello()
		start := time.Now()
		again.alive()
		if took := time.Since(start); took > 10*latency {
			t.Errorf("served after %v", took)
		}
	})
}

// TestProofBesideAnotherItem: the ping of a proof leaves although another item is being written when
// the proof begins.
func TestProofBesideAnotherItem(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(nil)
		a.ask(b, "before")
		time.Sleep(time.Second)
		c := a.listConns()[0]
		c.control.turn <- struct{}{}
		go c.control.sendItem(&wire.Pong{N: 1})
		synctest.Wait()
		p := c.joinOrStartProof()
		synctest.Wait()
		<-c.control.turn
		began := time.Now()
		<-p.over
		if took := time.Since(began); !p.alive || took > 2*latency {
			t.Errorf("alive %v, after %v", p.alive, took)
		}
	})
}
