package peer

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// sized is an envelope of exactly size bytes when it is sent.
func sized(t testing.TB, kind, format string, size int) *wire.Envelope {
	t.Helper()
	id := identity.ID{1}
	length := func(e *wire.Envelope) int {
		full := *e
		full.V, full.ID, full.From, full.To, full.TS = wire.Version, wire.NewMessageID(), id, id, uint64(time.Now().UnixMilli())
		var b bytes.Buffer
		if err := full.Append(&b); err != nil {
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

func TestSizes(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		small := wire.MinMaxMessage
		var lengths sync.Map
		a := w.side(nil)
		b := w.side(func(c *Config) {
			c.MaxMessage = small
			c.Exchange = func(ctx context.Context, env *Passing) (*wire.Envelope, error) {
				lengths.Store(env.ID, true)
				return wire.NewReply(env.Envelope, kinds.KindResponse, wire.Payload(`{"summary":"taken"}`)), nil
			}
		})
		w.meet(a, b)
		a.ask2(b) // so that b's hello is known
		for _, size := range []int{small - 1, small} {
			if _, _, err := a.Exchange(t.Context(), b.ID(), sized(t, kinds.KindQuery, questionOf, size)); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
			if got, err := a.Send(t.Context(), b.ID(), sized(t, kinds.KindNotify, noteOf, size), true); err != nil || got != Handed {
				t.Errorf("%d bytes: %v, %v", size, got, err)
			}
		}
		before := a.listConns()[0].qc.ConnectionStats().BytesSent
		a.call(b.ID(), sized(t, kinds.KindQuery, questionOf, small+1)).want(t, kinds.TooLarge, kinds.DeliveredNo, 0, 0)
		_, err := a.Send(t.Context(), b.ID(), sized(t, kinds.KindNotify, noteOf, small+1), true)
		outcome{err, 0}.want(t, kinds.TooLarge, kinds.DeliveredNo, 0, 0)
		if after := a.listConns()[0].qc.ConnectionStats().BytesSent; after-before > 200 {
			t.Errorf("%d bytes left for messages that are too large", after-before)
		}

		// The own limit counts before there is a connection, and with a larger peer.
		b.call(a.ID(), sized(t, kinds.KindQuery, questionOf, small+1)).want(t, kinds.TooLarge, kinds.DeliveredNo, 0, 0)
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
			c.Exchange = func(_ context.Context, env *Passing) (*wire.Envelope, error) {
				reply := sized(t, kinds.KindResponse, `{"summary":"%s"}`, size-len(`cref`)-1-16) // the ref is added
				return wire.NewReply(env.Envelope, reply.Kind, reply.Payload), nil
			}
		})
		w.meet(a, b)
		reply, _, err := a.Exchange(t.Context(), b.ID(), query("the largest?"))
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		if reply.Append(&buf); buf.Len() != wire.MinMaxMessage {
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
			c.Exchange = func(_ context.Context, env *Passing) (*wire.Envelope, error) {
				got.Store(env.Envelope)
				return wire.NewReply(env.Envelope, kinds.KindResponse, wire.Payload(strings.Replace(text, `"question"`, `"summary"`, 1))), nil
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

const (
	questionOf = `{"question":"%s"}`
	noteOf     = `{"topic":"a.b","data":"%s"}`
)
