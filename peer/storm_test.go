package peer

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

var storms = flag.Int("storms", 1, "how many times TestWhatCallsSayIsTrue runs")

// storm is a network that loses packets, none to all of them.
type storm struct {
	simnet.PerfectRouter
	loss atomic.Int32 // percent
}

func (s *storm) SendPacket(p simnet.Packet) error {
	if rand.Int32N(100) < s.loss.Load() {
		return nil
	}
	return s.PerfectRouter.SendPacket(p)
}

// ledger is what the handlers of the far side know of each message.
type ledger struct {
	mu   sync.Mutex // guards what follows
	came map[wire.MessageID]bool
	kept map[wire.MessageID]wire.ReceiptState // the handler returned it
}

// TestWhatCallsSayIsTrue makes calls of all kinds and sizes while packets are lost,
// connections end, processes come and go, and trust is taken and given back. A
// success means that the other side handled the message, delivered no that it never
// saw it, and no call outlasts its deadline.
func TestWhatCallsSayIsTrue(t *testing.T) {
	for range *storms {
		t.Run("", func(t *testing.T) {
			net := new(storm)
			bubble(t, net, func(t *testing.T, w *network) { weather(t, w, net) })
		})
	}
}

func weather(t *testing.T, w *network, net *storm) {
	const boots = 4
	known := &ledger{came: make(map[wire.MessageID]bool), kept: make(map[wire.MessageID]wire.ReceiptState)}
	far := func(c *Config) {
		c.Exchange = func(ctx context.Context, from identity.ID, env *wire.Envelope) (*wire.Envelope, error) {
			known.arrived(env)
			q, err := kinds.Parse[kinds.Query](env.Payload)
			if err != nil {
				return nil, err
			}
			select {
			case <-time.After(time.Duration(q.DeadlineMS) * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return &wire.Envelope{Kind: kinds.KindResponse, Payload: kinds.Encode(&kinds.Response{Summary: env.ID.String() + strings.Repeat("!", int(q.MaxTokens))})}, nil
		}
		c.Message = func(ctx context.Context, _ identity.ID, env *wire.Envelope) (wire.ReceiptState, error) {
			known.arrived(env)
			time.Sleep(time.Duration(rand.N(200)) * time.Millisecond)
			state := wire.Held
			if rand.N(2) == 0 {
				state = wire.Handed
			}
			known.mu.Lock()
			known.kept[env.ID] = state
			known.mu.Unlock()
			return state, nil
		}
	}
	a, key, trust := w.side(nil), newKey(t), identity.NewTrust()
	var bs []*side
	for range boots {
		bs = append(bs, w.side(func(c *Config) { c.Key, c.Trust = key, trust; far(c) }))
	}
	var now atomic.Pointer[side]
	now.Store(bs[0])
	a.cfg.Addrs = func(identity.ID) []string { return []string{now.Load().Addr().String()} }
	a.knows(key, "reviewer")
	bs[0].trusts(a, "planner")
	w.start()
	a.serve()
	bs[0].serve()
	a.Connect(key.ID())

	const length = time.Minute
	start := time.Now()
	var said [3]atomic.Int32
	var busy sync.WaitGroup
	for range 8 {
		busy.Go(func() {
			for time.Since(start) < length {
				said[call(t, a, key.ID(), known)].Add(1)
				time.Sleep(time.Duration(rand.N(300)) * time.Millisecond)
			}
		})
	}
	for i, b := range bs {
		if i > 0 {
			now.Store(b)
			b.serve()
			b.Connect(a.ID())
		}
		for time.Since(start) < time.Duration(i+1)*length/boots {
			time.Sleep(time.Duration(rand.N(4000)) * time.Millisecond)
			trouble(t, a, b, net)
		}
		if i < boots-1 {
			net.loss.Store(int32(rand.N(2) * 20))
			b.shutdown()
		}
	}
	net.loss.Store(0)
	busy.Wait()
	t.Logf("%d succeeded, %d surely not delivered, %d otherwise", said[0].Load(), said[1].Load(), said[2].Load())
	for i := range said {
		if said[i].Load() < 5 {
			t.Errorf("too few calls ended so: %d", said[i].Load())
		}
	}
}

func (l *ledger) arrived(env *wire.Envelope) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.came[env.ID] = true
}

// call makes one, and checks what it says: 0 for success, 1 for delivered no.
func call(t *testing.T, a *side, to identity.ID, known *ledger) int {
	limit := 30 * time.Second
	if rand.N(2) == 0 {
		limit = time.Duration(1+rand.N(3000)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	size := []int{10, 2000, 300_000}[rand.N(3)]
	id := wire.NewMessageID()
	var err error
	what := "query"
	began := time.Now()
	if rand.N(2) == 0 {
		env := &wire.Envelope{ID: id, Kind: kinds.KindQuery, Payload: kinds.Encode(&kinds.Query{
			Question: strings.Repeat("?", size), DeadlineMS: uint64(1 + rand.N(3000)), MaxTokens: []uint64{10, 2000, 300_000}[rand.N(3)],
		})}
		var reply *wire.Envelope
		if reply, _, err = a.Exchange(ctx, to, env); err == nil && !strings.Contains(string(reply.Payload), id.String()) {
			t.Errorf("the reply is another one's: %.100s", reply.Payload)
		}
	} else {
		wait := rand.N(3) > 0
		what = fmt.Sprintf("notify, wait %v", wait)
		env := notify("a.b")
		env.ID = id
		env.Payload = wire.Payload(`{"topic":"a.b","data":"` + strings.Repeat("!", size) + `"}`)
		var got Outcome
		got, err = a.Send(ctx, to, env, wait)
		known.mu.Lock()
		kept := known.kept[id]
		known.mu.Unlock()
		if want := map[Outcome]wire.ReceiptState{Held: wire.Held, Handed: wire.Handed}[got]; err == nil && wait && kept != want {
			t.Errorf("the outcome is %q, the other side's %v", got, kept)
		}
		if err == nil && !wait && got == Sent {
			return 0
		}
	}
	took := time.Since(began)
	if took > limit+time.Millisecond {
		t.Errorf("%s of %d bytes: it took %v of %v: %v", what, size, took, limit, err)
	}
	known.mu.Lock()
	came := known.came[id]
	known.mu.Unlock()
	switch {
	case err == nil && !came:
		t.Errorf("%s of %d bytes: a success of which the other side knows nothing", what, size)
	case err == nil:
		return 0
	case kinds.AsError(err).Delivered() == kinds.DeliveredNo:
		time.Sleep(10 * time.Second) // nor afterwards
		known.mu.Lock()
		defer known.mu.Unlock()
		if known.came[id] {
			t.Errorf("%s of %d bytes: it came, in spite of %v", what, size, err)
		}
		return 1
	}
	return 2
}

// trouble is one thing that goes wrong.
func trouble(t *testing.T, a, b *side, net *storm) {
	sides := []*side{a, b}
	one := sides[rand.N(2)]
	switch rand.N(7) {
	case 0:
		net.loss.Store(100)
		time.Sleep(time.Duration(rand.N(12000)) * time.Millisecond)
		net.loss.Store(0)
	case 1:
		net.loss.Store(int32(rand.N(30)))
	case 2, 3:
		for _, c := range one.connections() {
			c.close(quic.ApplicationErrorCode(rand.N(10)), "test")
		}
	case 4:
		for _, c := range one.connections() {
			c.goaway(closeReplaced)
		}
	case 5:
		for _, c := range b.connections() {
			c.resetServed()
		}
	case 6:
		if err := b.trust.Untrust(a.ID()); err != nil {
			t.Error(err)
		}
		b.Disconnect(a.ID())
		time.Sleep(time.Duration(rand.N(2000)) * time.Millisecond)
		b.trusts(a, "planner")
		b.Connect(a.ID())
	}
}
