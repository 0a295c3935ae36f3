package peer

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestWhatAPeerMaySend(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		c := h.trusted(b)

		for _, typ := range []byte{0x00, 0x02, 0x03, 0x04, 0x10, 0x7f, 0xff} {
			_, err := c.reply(c.openBidi(typ, 1, 2, 3))
			resetWith(t, err, streamUnknown)
			c.alive()
		}
		for _, typ := range []byte{0x01, 0x03, 0x04, 0x10, 0x7f, 0xff} {
			if r := c.receipt(c.sendUni(typ)); r.State != wire.Refused || r.Code != string(kinds.UnknownKind) {
				t.Errorf("type %#x: got %+v", typ, r)
			}
			c.alive()
		}

		note := `{"topic":"build.done"}`
		other := newKey(t).ID()
		for name, tt := range map[string]struct {
			env  []byte
			want kinds.Code
		}{
			"query":          {c.envelope(kinds.KindQuery, `{"question":"x"}`, nil), kinds.Invalid},
			"pong":           {c.envelope(kinds.KindPong, `{"status":"idle","uptime_secs":1,"active_tasks":0}`, func(e *wire.Envelope) { e.Ref = &e.ID }), kinds.Invalid},
			"unknown kind":   {c.envelope("dance", "", nil), kinds.UnknownKind},
			"spoofed from":   {c.envelope(kinds.KindNotify, note, func(e *wire.Envelope) { e.From = other }), kinds.NotAuthorized},
			"from ourselves": {c.envelope(kinds.KindNotify, note, func(e *wire.Envelope) { e.From = c.to }), kinds.NotAuthorized},
			"to another":     {c.envelope(kinds.KindNotify, note, func(e *wire.Envelope) { e.To = other }), kinds.NotAuthorized},
			"loop":           {c.envelope(kinds.KindNotify, note, func(e *wire.Envelope) { e.Hops = 17 }), kinds.LoopDetected},
			"no topic":       {c.envelope(kinds.KindNotify, `{}`, nil), kinds.Invalid},
			"not JSON":       {c.envelope(kinds.KindNotify, `{"topic":`, nil), kinds.Invalid},
			"not CBOR":       {[]byte{0xff, 0x00}, kinds.Invalid},
			"nothing":        {nil, kinds.Invalid},
			"too large":      {make([]byte, wire.DefaultMaxMessage+1), kinds.TooLarge},
		} {
			if r := c.message(tt.env); r.State != wire.Refused || r.Code != string(tt.want) {
				t.Errorf("message, %s: got %+v, want %s", name, r, tt.want)
			}
			c.alive()
		}
		if r := c.receipt(c.sendUni()); r.State != wire.Refused || r.Code != string(kinds.Invalid) {
			t.Errorf("a stream without a byte: got %+v", r)
		}

		c.refusedWith(c.envelope(kinds.KindNotify, note, nil), kinds.Invalid)
		c.refusedWith(c.envelope("dance", "", nil), kinds.UnknownKind)
		c.refusedWith(c.envelope(kinds.KindPing, "", func(e *wire.Envelope) { e.From = other }), kinds.NotAuthorized)
		c.refusedWith(c.envelope(kinds.KindPing, "", func(e *wire.Envelope) { e.To = other }), kinds.NotAuthorized)
		c.refusedWith(c.envelope(kinds.KindQuery, `{}`, nil), kinds.Invalid)
		for name, tt := range map[string]struct {
			body []byte
			want quic.StreamErrorCode
		}{
			"not CBOR":  {[]byte{0xff, 0x00}, streamInvalid},
			"nothing":   {nil, streamInvalid},
			"too large": {make([]byte, wire.DefaultMaxMessage+1), streamTooLarge},
		} {
			_, err := c.exchange(tt.body)
			t.Log(name)
			resetWith(t, err, tt.want)
			c.alive()
		}
		for _, env := range b.received() {
			if env.Kind != kinds.KindPing {
				t.Errorf("a handler was given %s", env.Kind)
			}
		}
	})
}

// TestSlowSenders has streams on which too little comes: they end, and nothing else.
func TestSlowSenders(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		c := h.trusted(b)
		within := func(start time.Time, want time.Duration) {
			t.Helper()
			if took := time.Since(start); took < want-latency || took > want+10*latency {
				t.Errorf("ended after %v, want %v", took, want)
			}
		}

		start := time.Now()
		_, err := c.reply(c.openBidi(byte(wire.StreamExchange)))
		resetWith(t, err, streamTimeout)
		within(start, byteTime)

		start = time.Now()
		silent, _ := c.qc.OpenUniStream() // the next one opens it too, without a byte
		partial, _ := c.qc.OpenUniStream()
		partial.Write([]byte{byte(wire.StreamMessage)})
		for range 2 {
			r := next[*wire.Receipt](c)
			if id := quic.StreamID(r.Stream); r.Code != string(kinds.Timeout) || id != silent.StreamID() && id != partial.StreamID() {
				t.Errorf("got %+v", r)
			}
			within(start, byteTime)
		}

		start = time.Now()
		drip := c.openBidi(byte(wire.StreamExchange))
		go func() {
			for range 20 {
				time.Sleep(8 * time.Second)
				drip.Write([]byte{0xa1})
			}
		}()
		_, err = c.reply(drip)
		resetWith(t, err, streamTimeout)
		within(start, envelopeTime)
		c.alive()
		time.Sleep(2 * time.Minute)
	})
}

// TestReplyThatIsNotRead: when the reply is given up, the caller does not hear that
// its message was not delivered.
func TestReplyThatIsNotRead(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(func(c *Config) {
			c.Exchange = func(_ context.Context, env *Passing) (*wire.Envelope, error) {
				return wire.NewReply(env.Envelope, kinds.KindResponse, kinds.EncodePayload(&kinds.Response{Summary: strings.Repeat("!", 100_000)})), nil
			}
		})
		c := h.trusted(b)
		go c.answerPings()
		s := c.openBidi(append([]byte{byte(wire.StreamExchange)}, c.envelope(kinds.KindQuery, `{"question":"?"}`, nil)...)...)
		s.Close()
		time.Sleep(envelopeTime + time.Second)
		_, err := io.ReadAll(s)
		resetWith(t, err, streamInternal)
	})
}

// TestCallsDoNotWaitForControl has a peer that reads no control items and wants the
// connection to end: who gets a reply has it at once.
func TestCallsDoNotWaitForControl(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, h := w.facing(nil)
		c := h.trusted(a)
		for range 1000 { // of which the receipts are more than c lets come
			c.sendUni(append([]byte{byte(wire.StreamMessage)}, c.envelope(kinds.KindNotify, `{"topic":"a.b"}`, nil)...)...)
		}
		replied := make(chan error, 1)
		go func() {
			_, _, err := a.Exchange(context.Background(), c.key.ID(), query("?"))
			replied <- err
		}()
		s, err := c.qc.AcceptStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(s)
		if err != nil {
			t.Fatal(err)
		}
		env, err := wire.ParseEnvelope(b[1:])
		if err != nil {
			t.Fatal(err)
		}
		c.write(item(t, &wire.Goaway{}))
		time.Sleep(10 * latency)
		start := time.Now()
		s.Write(c.envelope(kinds.KindResponse, `{"summary":"!"}`, func(e *wire.Envelope) { e.Ref = &env.ID }))
		s.Close()
		select {
		case err := <-replied:
			outcome{err, time.Since(start)}.answered(t, 0, 10*latency)
		case <-time.After(time.Minute):
			t.Error("it hangs")
		}
	})
}
