package peer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/storm"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestWhatCallsSayIsTrue makes calls of all kinds and sizes while packets are lost,
// doubled, damaged and out of order, connections end, processes come and go, handlers
// panic, and trust is taken and given back. A success means that the other side
// handled the message, delivered no that it never saw it, and no call outlasts its
// deadline.
func TestWhatCallsSayIsTrue(t *testing.T) {
	storm.RunStorm(t, 500, faultNames[:], func(t *testing.T, sw *storm.Weather) {
		w := newWeather(sw)
		bubble(t, &w.air, func(t *testing.T, n *network) { w.pass(t, n) })
	})
}

// weather is one span of time in which a node calls another.
type weather struct {
	*storm.Weather
	air    air
	relay  *relayNet // on which both sides are; nil: there is none
	kinds  int       // of faults
	direct bool      // the far side's UDP address is known

	mu  sync.Mutex
	log map[wire.MessageID]fate // what the far side knows; under mu
}

// fate holds the facts that the far side knows of a message.
type fate struct {
	came int               // how often
	kept wire.ReceiptState // the handler returned it
	did  bool              // the handler returned without an error
}

func newWeather(sw *storm.Weather) *weather {
	w := &weather{Weather: sw, kinds: int(faults), direct: true, log: make(map[wire.MessageID]fate)}
	w.air.w = w
	return w
}

func (w *weather) ms(most int) time.Duration {
	return time.Duration(w.DrawBelow(most)) * time.Millisecond
}

func (w *weather) note(id wire.MessageID, change func(*fate)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.log[id]
	change(&f)
	w.log[id] = f
}

func (w *weather) fate(id wire.MessageID) fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log[id]
}

// boots counts the processes of the far side in one weather; spell is the time for which each of
// them lives.
const (
	boots   = 4
	spell   = 6 * time.Second
	callers = 24
)

// pass lets the weather pass: calls and faults until the last process has ended.
func (w *weather) pass(t *testing.T, n *network) {
	near, key, trust := n.side(w.join), newKey(t), identity.NewMemoryTrustStore()
	var fars []*side
	for range boots {
		fars = append(fars, n.side(func(c *Config) {
			c.Key, c.Trust, c.Exchange, c.Message = key, trust, w.exchange, w.message
			w.join(c)
		}))
	}
	var now atomic.Pointer[side]
	now.Store(fars[0])
	near.cfg.Addrs = func(identity.ID) []string { return w.addrs(now.Load()) }
	near.knows(key, "reviewer")
	fars[0].trusts(near, "planner")
	n.start()
	near.serve()
	fars[0].serve()
	near.Connect(key.ID())

	start := time.Now()
	restarted := func() {}
	var busy sync.WaitGroup
	for range callers {
		busy.Go(func() {
			for time.Since(start) < boots*spell {
				w.call(t, near, key.ID())
				time.Sleep(w.ms(50))
			}
		})
	}
	for i, far := range fars {
		if i > 0 {
			now.Store(far)
			far.serve()
			far.Connect(near.ID())
			restarted()
		}
		for time.Since(start) < time.Duration(i+1)*spell {
			time.Sleep(w.ms(300))
			w.trouble(t, near, far)
		}
		if i < boots-1 {
			restarted = w.BeginFault(int(restart))
			if w.DrawBelow(2) == 0 {
				far.shutdown()
			} else {
				w.kill(far)
			}
		}
	}
	w.clear()
	busy.Wait()
	for id, f := range w.log {
		if f.came > 1 {
			t.Errorf("%v came %d times", id, f.came)
		}
	}
}

// exchange and message are what the far side does with what comes. Now and then they
// panic.
func (w *weather) exchange(ctx context.Context, env *Passing) (*wire.Envelope, error) {
	w.note(env.ID, func(f *fate) { f.came++ })
	q, err := kinds.ParsePayload[kinds.Query](env.Payload)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(q.DeadlineMS) * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mayPanic()
	w.note(env.ID, func(f *fate) { f.did = true })
	return wire.NewReply(env.Envelope, kinds.KindResponse, kinds.EncodePayload(&kinds.Response{Summary: env.ID.String() + strings.Repeat("!", int(q.MaxTokens))})), nil
}

func (w *weather) message(_ context.Context, env *Passing) (wire.ReceiptState, error) {
	w.note(env.ID, func(f *fate) { f.came++ })
	time.Sleep(w.ms(100))
	w.mayPanic()
	state := wire.Held
	if w.DrawBelow(2) == 0 {
		state = wire.Handed
	}
	w.note(env.ID, func(f *fate) { f.did, f.kept = true, state })
	return state, nil
}

func (w *weather) mayPanic() {
	if w.DrawBelow(40) == 0 {
		w.BeginFault(int(panics))()
		panic("a handler that fails")
	}
}

// size draws the bytes of a text: most are small.
func (w *weather) size() int {
	return []int{10, 10, 10, 10, 10, 10, 10, 2000, 2000, 200_000}[w.DrawBelow(10)]
}

// call makes one call, checks what it says and counts it.
func (w *weather) call(t *testing.T, near *side, to identity.ID) {
	limit := 20 * time.Second
	if w.DrawBelow(2) == 0 {
		limit = time.Duration(1+w.DrawBelow(2000)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	id := wire.NewMessageID()
	what := "query"
	ended := w.BeginCall()
	began := time.Now()
	var err error
	unproven := false // the call promised nothing
	if w.DrawBelow(2) == 0 {
		env := &wire.Envelope{ID: id, Kind: kinds.KindQuery, Payload: kinds.EncodePayload(&kinds.Query{
			Question: strings.Repeat("?", w.size()), DeadlineMS: uint64(1 + w.DrawBelow(300)), MaxTokens: uint64(w.size()),
		})}
		var reply *wire.Envelope
		if reply, _, err = near.Exchange(ctx, to, env); err == nil && !strings.Contains(string(reply.Payload), id.String()) {
			t.Errorf("the reply is another one's: %.100s", reply.Payload)
		}
	} else {
		wait := w.DrawBelow(10) > 0
		what = fmt.Sprintf("notify, wait %v", wait)
		env := notify("a.b")
		env.ID = id
		env.Payload = wire.Payload(`{"topic":"a.b","data":"` + strings.Repeat("!", w.size()) + `"}`)
		var got Outcome
		got, err = near.Send(ctx, to, env, wait)
		unproven = err == nil && got == Sent
		if want := map[Outcome]wire.ReceiptState{Held: wire.Held, Handed: wire.Handed}[got]; err == nil && wait && w.fate(id).kept != want {
			t.Errorf("%s: the outcome is %q, the other side's %v", what, got, w.fate(id).kept)
		}
	}
	if took := time.Since(began); took > limit+time.Millisecond {
		t.Errorf("%s: it took %v of %v: %v", what, took, limit, err)
	}
	far := w.fate(id)
	switch {
	case unproven:
		ended(storm.Succeeded)
	case err == nil && !(far.came > 0 && far.did):
		t.Errorf("%s: a success of which the other side knows nothing", what)
	case err == nil:
		ended(storm.Succeeded)
	case kinds.AsError(err).Delivered() == kinds.DeliveredNo:
		time.Sleep(10 * time.Second) // nor afterwards
		if w.fate(id).came > 0 {
			t.Errorf("%s: it came, in spite of %v", what, err)
		}
		ended(storm.NotDelivered)
	default:
		ended(storm.Failed)
	}
}

// trouble is one thing that goes wrong.
func (w *weather) trouble(t *testing.T, near, far *side) {
	one := []*side{near, far}[w.DrawBelow(2)]
	during := func(f fault, d time.Duration) {
		defer w.BeginFault(int(f))()
		w.air.set(f, true)
		defer w.air.set(f, false)
		time.Sleep(d)
	}
	at := func(f fault, do func()) {
		defer w.BeginFault(int(f))()
		do()
	}
	switch f := fault(w.DrawFault(w.kinds)); f {
	case partition:
		during(f, w.ms(3000))
	case loss, reordering, duplication, corruption:
		during(f, w.ms(2000))
	case outage, lies, forgetting, unlinking:
		defer w.BeginFault(int(f))()
		w.troubleRelay(f, one)
	case closing:
		at(f, func() {
			for _, c := range one.listConns() {
				c.close(quic.ApplicationErrorCode(w.DrawBelow(10)), "test")
			}
		})
	case going:
		at(f, func() {
			for _, c := range one.listConns() {
				c.sendGoaway(closeReplaced)
			}
		})
	case resets:
		at(f, func() {
			for _, c := range far.listConns() {
				c.resetInboundStreams()
			}
		})
	case untrusting:
		at(f, func() {
			if err := far.trust.Untrust(near.ID()); err != nil {
				t.Error(err)
			}
			far.Disconnect(near.ID())
			time.Sleep(w.ms(800))
			far.trusts(near, "planner")
			far.Connect(near.ID())
		})
	case restart, panics: // they happen by themselves
	}
}
