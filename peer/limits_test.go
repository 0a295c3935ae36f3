package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestCancelReachesTheHandler(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		gone := make(chan time.Time, 1)
		a, b := w.pair(func(c *Config) {
			c.Exchange = func(ctx context.Context, _ identity.ID, env *wire.Envelope) (*wire.Envelope, error) {
				<-ctx.Done()
				gone <- time.Now()
				return nil, ctx.Err()
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, _, err := a.Exchange(ctx, b.ID(), query("?"))
		outcome{err, time.Since(start)}.want(t, kinds.Cancelled, kinds.DeliveredUnknown, time.Second, time.Second)
		if took := (<-gone).Sub(start.Add(time.Second)); took > 2*latency {
			t.Errorf("the handler heard after %v, want %v at most", took, 2*latency)
		}

		ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start = time.Now()
		_, _, err = a.Exchange(ctx, b.ID(), query("?"))
		outcome{err, time.Since(start)}.want(t, kinds.Timeout, kinds.DeliveredUnknown, 2*time.Second, 2*time.Second)
		if took := (<-gone).Sub(start.Add(2 * time.Second)); took > 2*latency {
			t.Errorf("the handler heard after %v, want %v at most", took, 2*latency)
		}
		if n := a.remote(b.ID()).budget.exchanges.Load(); n != 0 {
			t.Errorf("%d exchanges still count", n)
		}
	})
}

// TestCancelBehindAClosedWindow gives up what could not be written.
func TestCancelBehindAClosedWindow(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, h := w.side(nil), w.host()
		w.start()
		a.serve()
		c := h.trusted(a)
		go c.answerPings()
		large := &wire.Envelope{Kind: kinds.KindQuery, Payload: kinds.Encode(&kinds.Query{Question: strings.Repeat("x", 100<<10)})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, _, err := a.Exchange(ctx, c.key.ID(), large)
		outcome{err, time.Since(start)}.want(t, kinds.Timeout, kinds.DeliveredUnknown, time.Second, time.Second)
		s, err := c.qc.AcceptStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(s)
		resetWith(t, err, streamCancelled)
		_, err = s.Write([]byte{1})
		resetWith(t, err, streamCancelled)

		large = &wire.Envelope{Kind: kinds.KindNotify, Payload: kinds.Encode(&kinds.Notify{Topic: "a.b", Data: []byte(`"` + strings.Repeat("x", 100<<10) + `"`)})}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start = time.Now()
		_, err = a.Send(ctx, c.key.ID(), large, false)
		outcome{err, time.Since(start)}.want(t, kinds.Cancelled, kinds.DeliveredUnknown, time.Second, time.Second)
		m, err := c.qc.AcceptUniStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(m)
		resetWith(t, err, streamCancelled)
	})
}

// TestEndedContext calls with a context that is over: nothing leaves.
func TestEndedContext(t *testing.T) {
	net := new(valve)
	bubble(t, net, func(t *testing.T, w *network) {
		a, b := w.pair(nil)
		net.shut.Store(true)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, _, err := a.Exchange(short, b.ID(), query("?"))
		outcome{err, time.Since(start)}.want(t, kinds.Timeout, kinds.DeliveredNo, time.Second, time.Second)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		start = time.Now()
		_, _, err = a.Exchange(over, b.ID(), query("?"))
		outcome{err, time.Since(start)}.want(t, kinds.Cancelled, kinds.DeliveredNo, 0, 0)
	})
}

// sized is an envelope of exactly size bytes when it is sent.
func sized(t testing.TB, kind, format string, size int) *wire.Envelope {
	t.Helper()
	id := identity.ID{1}
	length := func(e *wire.Envelope) int {
		full := *e
		full.V, full.ID, full.From, full.To, full.TS = wire.Version, wire.NewMessageID(), id, id, uint64(time.Now().UnixMilli())
		var b bytes.Buffer
		if err := full.AppendReply(&b); err != nil {
			t.Fatal(err)
		}
		return b.Len()
	}
	e := &wire.Envelope{Kind: kind, Payload: fmt.Appendf(nil, format, "")}
	for range 4 {
		e.Payload = fmt.Appendf(nil, format, strings.Repeat("x", size-length(e)+len(e.Payload)-len(fmt.Sprintf(format, ""))))
	}
	if got := length(e); got != size {
		t.Fatalf("an envelope of %d bytes, want %d", got, size)
	}
	return e
}

const (
	questionOf = `{"question":"%s"}`
	noteOf     = `{"topic":"a.b","data":"%s"}`
)

func TestSizes(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		small := wire.MinMaxMessage
		var lengths sync.Map
		a := w.side(nil)
		b := w.side(func(c *Config) {
			c.MaxMessage = small
			c.Exchange = func(ctx context.Context, from identity.ID, env *wire.Envelope) (*wire.Envelope, error) {
				lengths.Store(env.ID, true)
				return &wire.Envelope{Kind: kinds.KindResponse, Payload: wire.Payload(`{"summary":"taken"}`)}, nil
			}
		})
		a.trusts(b, "reviewer")
		b.trusts(a, "planner")
		w.start()
		a.serve()
		b.serve()
		a.ask2(b) // so that b's hello is known
		for _, size := range []int{small - 1, small} {
			if _, _, err := a.Exchange(t.Context(), b.ID(), sized(t, kinds.KindQuery, questionOf, size)); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
			if got, err := a.Send(t.Context(), b.ID(), sized(t, kinds.KindNotify, noteOf, size), true); err != nil || got != Handed {
				t.Errorf("%d bytes: %v, %v", size, got, err)
			}
		}
		before := a.connections()[0].qc.ConnectionStats().BytesSent
		_, _, err := a.Exchange(t.Context(), b.ID(), sized(t, kinds.KindQuery, questionOf, small+1))
		outcome{err, 0}.want(t, kinds.TooLarge, kinds.DeliveredNo, 0, 0)
		_, err = a.Send(t.Context(), b.ID(), sized(t, kinds.KindNotify, noteOf, small+1), true)
		outcome{err, 0}.want(t, kinds.TooLarge, kinds.DeliveredNo, 0, 0)
		if after := a.connections()[0].qc.ConnectionStats().BytesSent; after-before > 200 {
			t.Errorf("%d bytes left for messages that are too large", after-before)
		}

		// The own limit counts before there is a connection, and with a larger peer.
		_, _, err = b.Exchange(t.Context(), a.ID(), sized(t, kinds.KindQuery, questionOf, small+1))
		outcome{err, 0}.want(t, kinds.TooLarge, kinds.DeliveredNo, 0, 0)
	})
}

// ask2 asks where the answer is not the echo.
func (s *side) ask2(o *side) {
	s.t.Helper()
	if _, _, err := s.Exchange(context.Background(), o.ID(), query("?")); err != nil {
		s.t.Fatal(err)
	}
}

func TestReplySizes(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		size := wire.MinMaxMessage
		a := w.side(func(c *Config) { c.MaxMessage = wire.MinMaxMessage })
		b := w.side(func(c *Config) {
			c.Exchange = func(_ context.Context, _ identity.ID, env *wire.Envelope) (*wire.Envelope, error) {
				reply := sized(t, kinds.KindResponse, `{"summary":"%s"}`, size-len(`cref`)-1-16) // the ref is added
				return reply, nil
			}
		})
		a.trusts(b, "reviewer")
		b.trusts(a, "planner")
		w.start()
		a.serve()
		b.serve()
		reply, _, err := a.Exchange(t.Context(), b.ID(), query("the largest?"))
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		if reply.AppendReply(&buf); buf.Len() != wire.MinMaxMessage {
			t.Errorf("the reply had %d bytes, not %d", buf.Len(), wire.MinMaxMessage)
		}
		size++
		_, _, err = a.Exchange(t.Context(), b.ID(), query("one more?"))
		if e := kinds.AsError(err); e.Code != kinds.TooLarge || e.From != b.ID().String() {
			t.Errorf("got %v from %q", err, e.From)
		}
	})
}

func TestPayloadsAreUntouched(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		const text = `{ "question":"größer \ud83d\ude00 😀?","n":1234567890123456789,"big":123456789012345678901234567890.000e-2 ,
 "z":{"a":[1.0,[],{}],"":null},"deadline_ms":30000}`
		var got atomic.Pointer[wire.Envelope]
		a, b := w.pair(func(c *Config) {
			c.Exchange = func(_ context.Context, _ identity.ID, env *wire.Envelope) (*wire.Envelope, error) {
				got.Store(env)
				return &wire.Envelope{Kind: kinds.KindResponse, Payload: wire.Payload(strings.Replace(text, `"question"`, `"summary"`, 1))}, nil
			}
		})
		sent := &wire.Envelope{Kind: kinds.KindQuery, Payload: wire.Payload(text), Thread: "t-1", Agent: "tester", Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Hops: 3}
		reply, _, err := a.Exchange(t.Context(), b.ID(), sent)
		if err != nil {
			t.Fatal(err)
		}
		e := got.Load()
		if string(e.Payload) != text || e.Thread != "t-1" || e.Agent != "tester" || e.Hops != 3 || e.Trace != sent.Trace || e.ID != sent.ID {
			t.Errorf("it came as %+v", e)
		}
		if string(reply.Payload) != strings.Replace(text, `"question"`, `"summary"`, 1) || reply.Thread != "t-1" || *reply.Ref != sent.ID {
			t.Errorf("the reply came as %+v", reply)
		}
	})
}

// until answers pings and, when release is closed, the rest.
func until(release chan struct{}) func(*Config) {
	return func(c *Config) {
		c.Exchange = func(ctx context.Context, from identity.ID, env *wire.Envelope) (*wire.Envelope, error) {
			if env.Kind == kinds.KindQuery && strings.HasPrefix(string(env.Payload), `{"question":"wait`) {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return echo(ctx, from, env)
		}
	}
}

func TestExchangeBudget(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		release := make(chan struct{})
		a, b := w.pair(until(release))
		a.ask(b, "connect")
		var slow sync.WaitGroup
		for range maxExchanges {
			slow.Go(func() {
				if err := a.tryAsk(b, "wait"); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)

		start := time.Now()
		var over sync.WaitGroup
		for range 1000 { // a storm of refused ones takes no place of the spare
			over.Go(func() {
				_, _, err := a.Exchange(t.Context(), b.ID(), query("one more"))
				outcome{err, time.Since(start)}.want(t, kinds.Overloaded, kinds.DeliveredNo, 0, 0)
			})
		}
		for range spare {
			over.Go(func() {
				env := &wire.Envelope{Kind: kinds.KindPing}
				if _, _, err := a.Exchange(t.Context(), b.ID(), env); err != nil {
					t.Errorf("ping: %v", err)
				}
			})
		}
		over.Wait()
		ref := wire.NewMessageID()
		if _, _, err := a.Exchange(t.Context(), b.ID(), &wire.Envelope{Kind: kinds.KindCancel, Ref: &ref}); err != nil {
			t.Errorf("cancel: %v", err)
		}
		b.ask(a, "the other direction has its own")
		close(release)
		slow.Wait()
		a.ask(b, "and it is free again")
	})
}

// TestCreditBatches runs 10,000 quick exchanges beside the most slow ones that the
// budget leaves room for: credit that is given back in batches must not run out.
func TestCreditBatches(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		release := make(chan struct{})
		a, b := w.pair(until(release))
		a.ask(b, "connect")
		const quick = 10_000
		for _, holding := range []int{maxExchanges - 1, maxExchanges - 64} {
			var slow, done sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			for range holding {
				slow.Go(func() { a.Exchange(ctx, b.ID(), query("wait")) })
			}
			time.Sleep(time.Second)
			var next atomic.Int64
			for range maxExchanges - holding {
				done.Go(func() {
					for next.Add(1) <= quick/2 {
						if err := a.tryAsk(b, "quick"); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			done.Wait()
			cancel()
			slow.Wait()
			time.Sleep(time.Second)
		}
	})
}

func TestByteBudget(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		release := make(chan struct{})
		a, b := w.pair(until(release))
		a.ask(b, "connect")
		var slow sync.WaitGroup
		for range 4 {
			slow.Go(func() {
				if _, _, err := a.Exchange(t.Context(), b.ID(), sized(t, kinds.KindQuery, `{"question":"wait%s"}`, 1<<20-1000)); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(5 * time.Second)
		_, _, err := a.Exchange(t.Context(), b.ID(), sized(t, kinds.KindQuery, questionOf, 10<<10))
		if code(err) != kinds.Overloaded {
			t.Errorf("exchange: %v", err)
		}
		_, err = a.Send(t.Context(), b.ID(), sized(t, kinds.KindNotify, noteOf, 10<<10), true)
		if e := kinds.AsError(err); e.Code != kinds.Overloaded || e.RetryAfterMS == 0 {
			t.Errorf("message: %v", err)
		}
		close(release)
		slow.Wait()
		time.Sleep(time.Second)
		a.ask(b, "free again")
		if n := b.remote(a.ID()).inBytes.Load(); n != 0 {
			t.Errorf("%d bytes still count", n)
		}
	})
}

func TestMessagesBeyondTheCredit(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(func(c *Config) {
			c.Message = func(ctx context.Context, _ identity.ID, env *wire.Envelope) (wire.ReceiptState, error) {
				time.Sleep(500 * time.Millisecond)
				return wire.Held, nil
			}
		})
		var sends sync.WaitGroup
		for i := range 300 {
			sends.Go(func() {
				if got, err := a.Send(t.Context(), b.ID(), notify(fmt.Sprint("n", i)), true); err != nil || got != Held {
					t.Errorf("%d: %q, %v", i, got, err)
				}
			})
		}
		sends.Wait()
	})
}

func TestReceipts(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func() (wire.ReceiptState, error)
		want   kinds.Code
		text   string
	}{
		"refused":   {func() (wire.ReceiptState, error) { return 0, kinds.Errorf(kinds.NotFound, "no such task") }, kinds.NotFound, "no such task"},
		"bad UTF-8": {func() (wire.ReceiptState, error) { return 0, kinds.Errorf(kinds.Invalid, "got %s", "\xff\xfex") }, kinds.Invalid, "got x"},
		"cut in a letter": {func() (wire.ReceiptState, error) {
			return 0, kinds.Errorf(kinds.Invalid, "%s", strings.Repeat("é", 2000))
		}, kinds.Invalid, strings.Repeat("é", 512)},
		"bytes of none": {func() (wire.ReceiptState, error) {
			return 0, kinds.Errorf(kinds.Invalid, "%s", strings.Repeat("\x80", 2000))
		}, kinds.Invalid, ""},
		"plain error":     {func() (wire.ReceiptState, error) { return 0, errors.New("disk") }, kinds.Internal, "disk"},
		"refused, no why": {func() (wire.ReceiptState, error) { return wire.Refused, nil }, kinds.Internal, ""},
		"no such state":   {func() (wire.ReceiptState, error) { return 77, nil }, kinds.Internal, ""},
		"no code":         {func() (wire.ReceiptState, error) { return 0, &kinds.Error{Message: "odd"} }, kinds.Internal, "odd"},
		"panic":           {func() (wire.ReceiptState, error) { panic("at once") }, kinds.Internal, "the handler failed"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, w *network) {
				a, b := w.pair(func(c *Config) {
					c.Message = func(context.Context, identity.ID, *wire.Envelope) (wire.ReceiptState, error) { return tt.answer() }
				})
				_, err := a.Send(t.Context(), b.ID(), notify("a.b"), true)
				if e := kinds.AsError(err); err == nil || e.Code != tt.want || tt.text != "" && e.Message != tt.text {
					t.Errorf("got %v", err)
				}
				a.ask(b, "it lives on")
			})
		})
	}
}

func TestHandlersThatFail(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(func(c *Config) {
			c.Exchange = func(ctx context.Context, from identity.ID, env *wire.Envelope) (*wire.Envelope, error) {
				q, _ := kinds.Parse[kinds.Query](env.Payload)
				switch q.Question {
				case "panic":
					panic("at once")
				case "nothing":
					return nil, nil
				case "wrong":
					return &wire.Envelope{Kind: kinds.KindPong, Payload: wire.Payload(`{"status":"idle","uptime_secs":0,"active_tasks":0}`)}, nil
				case "invalid":
					return &wire.Envelope{Kind: kinds.KindResponse}, nil
				case "large error":
					return nil, errors.New(strings.Repeat("e", 2<<20))
				}
				return echo(ctx, from, env)
			}
		})
		for question, want := range map[string]kinds.Code{"panic": kinds.Internal, "nothing": kinds.Internal, "wrong": kinds.Internal, "invalid": kinds.Internal, "large error": kinds.TooLarge} {
			if _, _, err := a.Exchange(t.Context(), b.ID(), query(question)); code(err) != want {
				t.Errorf("%s: got %v", question, err)
			}
		}
		a.ask(b, "it lives on")
	})
}

// TestReceiptsThatNeverCome has a peer that takes messages and says nothing: what
// waits for it is bounded, and a call that waits ends.
func TestReceiptsThatNeverCome(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, h := w.side(nil), w.host()
		w.start()
		a.serve()
		c := h.trusted(a)
		go func() {
			for {
				s, err := c.qc.AcceptUniStream(context.Background())
				if err != nil {
					return
				}
				io.Copy(io.Discard, s)
			}
		}()
		go c.answerPings()
		start := time.Now()
		_, err := a.Send(t.Context(), c.key.ID(), notify("a.b"), true)
		outcome{err, time.Since(start)}.want(t, kinds.Timeout, kinds.DeliveredUnknown, wire.ReceiptDeadline, wire.ReceiptDeadline)
		for i := range maxReceipts + 1 {
			_, err = a.Send(t.Context(), c.key.ID(), notify("a.b"), false)
			if (err != nil) != (i == maxReceipts) {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		outcome{err, 0}.want(t, kinds.Overloaded, kinds.DeliveredNo, 0, 0)
	})
}

func TestPeerWithoutCredit(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, h := w.side(nil), w.host()
		w.start()
		a.serve()
		key := newKey(t)
		a.knows(key, "reviewer")
		conf, err := key.ClientTLS(a.ID(), false, identity.ALPN)
		if err != nil {
			t.Fatal(err)
		}
		qc, err := h.tr.Dial(t.Context(), a.Addr(), conf, &quic.Config{MaxIncomingStreams: -1, MaxIncomingUniStreams: 1})
		if err != nil {
			t.Fatal(err)
		}
		c := &raw{t: t, key: key, to: a.ID(), qc: qc}
		c.sendHello(nil)
		c.readHello()
		start := time.Now()
		_, _, err = a.Exchange(t.Context(), key.ID(), query("?"))
		outcome{err, time.Since(start)}.want(t, kinds.Overloaded, kinds.DeliveredNo, 0, 0)
		_, err = a.Send(t.Context(), key.ID(), notify("a.b"), true)
		outcome{err, time.Since(start)}.want(t, kinds.Timeout, kinds.DeliveredNo, wire.ReceiptDeadline, wire.ReceiptDeadline)
	})
}
