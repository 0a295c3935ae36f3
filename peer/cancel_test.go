package peer

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestCancelReachesTheHandler(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		gone := make(chan time.Time, 1)
		a, b := w.pair(func(c *Config) {
			c.Exchange = func(ctx context.Context, env *Passing) (*wire.Envelope, error) {
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
		if n := a.findOrCreateState(b.ID()).callSlots.exchanges.Load(); n != 0 {
			t.Errorf("%d exchanges still count", n)
		}
	})
}

// TestCancelBehindAClosedWindow gives up what could not be written: its end has not left, so it is
// not delivered.
func TestCancelBehindAClosedWindow(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, h := w.facing(nil)
		c := h.trusted(a)
		go c.answerPings()
		large := &wire.Envelope{Kind: kinds.KindQuery, Payload: kinds.EncodePayload(&kinds.Query{Question: strings.Repeat("x", 100<<10)})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, _, err := a.Exchange(ctx, c.key.ID(), large)
		outcome{err, time.Since(start)}.want(t, kinds.Timeout, kinds.DeliveredNo, time.Second, time.Second)
		s, err := c.qc.AcceptStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(s)
		resetWith(t, err, streamCancelled)
		_, err = s.Write([]byte{1})
		resetWith(t, err, streamCancelled)

		large = &wire.Envelope{Kind: kinds.KindNotify, Payload: kinds.EncodePayload(&kinds.Notify{Topic: "a.b", Data: []byte(`"` + strings.Repeat("x", 100<<10) + `"`)})}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start = time.Now()
		_, err = a.Send(ctx, c.key.ID(), large, false)
		outcome{err, time.Since(start)}.want(t, kinds.Cancelled, kinds.DeliveredNo, time.Second, time.Second)
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
