package peer

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// until answers pings and, when release is closed, the rest.
func until(release chan struct{}) func(*Config) {
	return func(c *Config) {
		c.Exchange = func(ctx context.Context, env *Passing) (*wire.Envelope, error) {
			if env.Kind == kinds.KindQuery && strings.HasPrefix(string(env.Payload), `{"question":"wait`) {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return echo(ctx, env)
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

		var over sync.WaitGroup
		for range 1000 { // a storm of refused ones takes no place of the spare
			over.Go(func() {
				a.call(b.ID(), query("one more")).want(t, kinds.Overloaded, kinds.DeliveredNo, 0, 0)
			})
		}
		for range spareExchanges {
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

// holds: security.md#the-budget
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
		if n := b.findOrCreateState(a.ID()).envelopes.Used(); n != 0 {
			t.Errorf("%d bytes still count", n)
		}
	})
}

func TestHandlersThatFail(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(func(c *Config) {
			c.Exchange = func(ctx context.Context, env *Passing) (*wire.Envelope, error) {
				q, _ := kinds.ParsePayload[kinds.Query](env.Payload)
				switch q.Question {
				case "panic":
					panic("at once")
				case "nothing":
					return nil, nil
				case "wrong":
					return wire.NewReply(env.Envelope, kinds.KindPong, wire.Payload(`{"status":"idle","uptime_secs":0,"active_tasks":0}`)), nil
				case "invalid":
					return wire.NewReply(env.Envelope, kinds.KindResponse, nil), nil
				case "large error":
					return nil, ownwords.New(strings.Repeat("e", 2<<20))
				case "invalid error":
					return nil, &kinds.Error{Code: kinds.NotAuthorized, Message: "no", Details: []byte(`"text"`)}
				}
				return echo(ctx, env)
			}
		})
		for question, want := range map[string]kinds.Code{"panic": kinds.Internal, "nothing": kinds.Internal, "wrong": kinds.Internal, "invalid": kinds.Internal, "invalid error": kinds.Internal, "large error": kinds.TooLarge} {
			if _, _, err := a.Exchange(t.Context(), b.ID(), query(question)); code(err) != want {
				t.Errorf("%s: got %v", question, err)
			}
		}
		a.ask(b, "it lives on")
	})
}

func TestPeerWithoutCredit(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, h := w.facing(nil)
		key := newKey(t)
		a.knows(key, "reviewer")
		h.dialAt(a.Addr(), a, key, identity.ALPN, &quic.Config{MaxIncomingStreams: -1, MaxIncomingUniStreams: 1}).greet()
		a.call(key.ID(), query("?")).want(t, kinds.Overloaded, kinds.DeliveredNo, 0, 0)
		start := time.Now()
		_, err := a.Send(t.Context(), key.ID(), notify("a.b"), true)
		outcome{err, time.Since(start)}.want(t, kinds.Timeout, kinds.DeliveredNo, kinds.ReceiptDeadline, kinds.ReceiptDeadline)
	})
}
