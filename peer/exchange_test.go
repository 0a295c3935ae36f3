package peer

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestExchange(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(nil)
		a.ask(b, "what is due today?")
		b.ask(a, "and tomorrow?")
		_, rtt, err := a.Exchange(context.Background(), b.ID(), query("how far?"))
		if err != nil || rtt < 2*latency || rtt > 4*latency {
			t.Errorf("rtt %v, err %v; want about %v", rtt, err, 2*latency)
		}
		if n := len(a.Peers()); n != 1 {
			t.Errorf("%d peers connected, want 1", n)
		}
	})
}

// TestStreamsHearFirst: streams hear that a connection ends before the connection says why. Then
// nothing was sent, and the next call goes on.
func TestStreamsHearFirst(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(nil)
		a.ask(b, "what is due today?")
		for _, heard := range []error{&quic.ApplicationError{Remote: true, ErrorCode: closeNotTrusted}, quic.ErrTransportClosed} {
			c := a.listConns()[0]
			if c.endCause() != nil {
				t.Fatal("the connection has ended")
			}
			if err := c.toOpenStreamError(heard); err != errNothingSent {
				t.Errorf("got %v", err)
			}
			a.ask(b, "and tomorrow?")
		}
	})
}

// TestCallMeetsLeavingConn calls between the two steps of markLeaving: the current connection is
// leaving, and no other one has been selected.
func TestCallMeetsLeavingConn(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(nil)
		a.ask(b, "first")
		c := a.findState(b.ID()).current.Load()
		c.mu.Lock()
		c.leaving.Store(true)
		c.leavingCode = closeReplaced
		c.mu.Unlock()
		a.ask(b, "second")
		c.close(closeReplaced, "test")
	})
}

// TestInvalidRepliesAreFoundHere: what is wrong with a reply is this daemon's word, an
// error that is a reply is the peer's.
func TestInvalidRepliesAreFoundHere(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		desk, h := w.facing(nil)
		c := h.trusted(desk)
		id, other := wire.NewMessageID(), wire.NewMessageID()
		reply := func(kind, payload string, ref *wire.MessageID) []byte {
			return c.envelope(kind, payload, func(e *wire.Envelope) { e.Ref = ref })
		}
		for name, r := range map[string]struct {
			reply []byte
			code  kinds.Code
			by    string
			came  kinds.Delivered
		}{
			"no envelope":     {[]byte{0xff}, kinds.Internal, "", kinds.DeliveredUnknown},
			"another's ref":   {reply(kinds.KindResponse, `{"summary":"main"}`, &other), kinds.Internal, "", kinds.DeliveredUnknown},
			"no summary":      {reply(kinds.KindResponse, `{}`, &id), kinds.Internal, "", kinds.DeliveredUnknown},
			"an error":        {reply(kinds.KindError, `{"code":"no_agent","message":"nobody is here"}`, &id), kinds.NoAgent, c.key.ID().String(), ""},
			"a refusal":       {reply(kinds.KindError, `{"code":"no_agent","message":"nobody is here","details":{"delivered":"no"}}`, &id), kinds.NoAgent, c.key.ID().String(), kinds.DeliveredNo},
			"not to be tried": {reply(kinds.KindError, `{"code":"internal","message":"it broke","details":{"delivered":"no"}}`, &id), kinds.Internal, c.key.ID().String(), ""},
		} {
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				if s, err := c.qc.AcceptStream(t.Context()); err == nil {
					io.ReadAll(s)
					s.Write(r.reply)
					s.Close()
				}
			}()
			call := query("Which branch?")
			call.ID = id
			_, _, err := desk.Exchange(t.Context(), c.key.ID(), call)
			<-answered
			if e := kinds.AsError(err); e.Code != r.code || e.From != r.by || e.Delivered() != r.came {
				t.Errorf("%s: %v from %q, delivered %q", name, err, e.From, e.Delivered())
			}
		}
	})
}

func TestStrangerIsPending(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.side(func(c *Config) { c.Name = "laptop" }), w.side(nil)
		a.trusts(b, "desk")
		w.serve(a, b)
		err := a.tryAsk(b, "who are you?")
		if code(err) != kinds.NotTrusted {
			t.Fatalf("got %v, want not_trusted", err)
		}
		waiting := b.Pending()
		if len(waiting) != 1 || waiting[0].ID != a.ID() || waiting[0].Claim != "laptop" || waiting[0].Addr != a.Addr().String() {
			t.Fatalf("pending: %+v", waiting)
		}
		if b.saw(EventPending) != 1 {
			t.Error("no event pending")
		}
		b.trusts(a, "laptop")
		b.Connect(a.ID())
		time.Sleep(time.Second)
		a.ask(b, "and now?")
		if len(b.Pending()) != 0 {
			t.Error("still pending")
		}
	})
}
