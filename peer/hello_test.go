package peer

import (
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestHelloOfATrustedPeer(t *testing.T) {
	const lives = quic.ApplicationErrorCode(1 << 20)
	control := func(c *raw) *quic.SendStream {
		s, err := c.qc.OpenUniStream()
		if err != nil {
			c.t.Fatal(err)
		}
		return s
	}
	good := func(c *raw) { c.sendHello(nil); c.readHello() }
	for name, tt := range map[string]struct {
		do   func(c *raw)
		want quic.ApplicationErrorCode
		in   time.Duration
	}{
		"good":                  {good, lives, 0},
		"none":                  {func(c *raw) {}, closeHelloTimeout, helloTimeout},
		"stream type alone":     {func(c *raw) { c.openControl(nil) }, closeHelloTimeout, helloTimeout},
		"half":                  {func(c *raw) { c.openControl(item(c.t, c.hello())[:50]) }, closeHelloTimeout, helloTimeout},
		"half and end":          {func(c *raw) { c.openControl(item(c.t, c.hello())[:50]); c.out.Close() }, closeProtocolError, 0},
		"garbage":               {func(c *raw) { c.openControl([]byte{3, 0xff, 0xff, 0xff}) }, closeProtocolError, 0},
		"empty item":            {func(c *raw) { c.openControl([]byte{0}) }, closeProtocolError, 0},
		"item over the limit":   {func(c *raw) { c.openControl([]byte{0x80, 0, 0x40, 1, 0x80}) }, closeProtocolError, 0},
		"ping first":            {func(c *raw) { c.openControl(item(c.t, &wire.Ping{N: 1})) }, closeProtocolError, 0},
		"a message first":       {func(c *raw) { c.sendUni(byte(wire.StreamMessage), 1) }, closeProtocolError, 0},
		"signed by nobody":      {func(c *raw) { c.sendHello(func(h *wire.Hello) { h.PQ.Sig[7] ^= 1 }) }, closeProtocolError, 0},
		"of another connection": {func(c *raw) { c.sendHello(func(h *wire.Hello) { h.PQ.Key[7] ^= 1 }) }, closeProtocolError, 0},
		"no post-quantum half":  {func(c *raw) { c.sendHello(func(h *wire.Hello) { h.PQ = nil }); c.readHello() }, lives, 0},
		"boundless max_message": {func(c *raw) { c.sendHello(func(h *wire.Hello) { h.MaxMessage = 1<<64 - 1 }); c.readHello() }, lives, 0},
		"second":                {func(c *raw) { good(c); c.write(item(c.t, c.hello())) }, closeProtocolError, 0},
		"garbage later":         {func(c *raw) { good(c); c.write([]byte{1, 0xff}) }, closeProtocolError, 0},
		"control closed":        {func(c *raw) { good(c); c.out.Close() }, closeProtocolError, 0},
		"control reset":         {func(c *raw) { good(c); c.out.CancelWrite(0) }, closeProtocolError, 0},
		"second control stream": {func(c *raw) { good(c); control(c).Write([]byte{0}) }, closeProtocolError, 0},
		"refusal for no stream": {func(c *raw) { good(c); c.write(item(c.t, &wire.Receipt{Stream: 3, State: wire.Refused, Code: "x"})) }, lives, 0},
		"receipt for no stream": {func(c *raw) { good(c); c.write(item(c.t, &wire.Receipt{Stream: 1 << 40})) }, lives, 0},
		"pong for no ping":      {func(c *raw) { good(c); c.write(item(c.t, &wire.Pong{N: 1 << 60})) }, lives, 0},
		"unknown item":          {func(c *raw) { good(c); c.write([]byte{4, 0x82, 0x18, 0x63, 0x01}) }, lives, 0},
		"extra elements":        {func(c *raw) { good(c); c.write([]byte{3, 0x82, 0x05, 0x01}) }, lives, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, w *network) {
				b, h := w.facing(nil)
				key := newKey(t)
				b.knows(key, "planner")
				c := h.dial(b, key)
				start := time.Now()
				tt.do(c)
				if tt.want == lives {
					c.alive()
					return
				}
				if got := c.closed(); got != tt.want {
					t.Errorf("close code %d, want %d", got, tt.want)
				}
				if took := time.Since(start); took < tt.in || took > tt.in+20*latency {
					t.Errorf("after %v, want %v", took, tt.in)
				}
				if n := len(b.Pending()); n != 0 {
					t.Errorf("%d pending", n)
				}
			})
		})
	}
}

func TestStreamBeforeHelloWaits(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.facing(nil)
		key := newKey(t)
		b.knows(key, "planner")
		c := h.dial(b, key)
		control, err := c.qc.OpenUniStream()
		if err != nil {
			t.Fatal(err)
		}
		s := c.openBidi(append([]byte{byte(wire.StreamExchange)}, c.envelope(kinds.KindPing, "", nil)...)...)
		s.Close()
		note := c.sendUni(append([]byte{byte(wire.StreamMessage)}, c.envelope(kinds.KindNotify, `{"topic":"a.b"}`, nil)...)...)
		time.Sleep(time.Second)
		if n := len(b.received()); n != 0 {
			t.Fatalf("%d messages were taken before hello", n)
		}
		control.Write(append([]byte{0}, item(t, c.hello())...))
		c.readHello()
		if env, err := c.reply(s); err != nil || env.Kind != kinds.KindPong {
			t.Errorf("got %v", err)
		}
		if r := c.receipt(note); r.State != wire.Handed {
			t.Errorf("got %+v", r)
		}
	})
}
