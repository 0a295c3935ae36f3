package peer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// host is a socket from which a test speaks QUIC by hand.
type host struct {
	t  testing.TB
	tr *quic.Transport
}

// host makes one with an address of its own; call it before start.
func (w *network) host() *host { return newHost(w.t, w.conn(w.addr())) }

func newHost(t testing.TB, socket net.PacketConn) *host {
	h := &host{t: t, tr: &quic.Transport{Conn: socket}}
	t.Cleanup(func() {
		h.tr.Close()
		socket.Close()
	})
	return h
}

// raw is the client's end of a connection that follows no rule but the test's.
type raw struct {
	t    testing.TB
	key  *identity.Key
	to   identity.ID
	qc   *quic.Conn
	out  *quic.SendStream // control, once opened
	in   *bufio.Reader    // control
	held []wire.Item      // read while another was waited for
}

func (h *host) dial(to *side, key *identity.Key) *raw {
	h.t.Helper()
	conf, err := key.ClientTLS(to.ID(), false, identity.ALPN)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.dialTLS(to, key, conf)
}

func (h *host) dialTLS(to *side, key *identity.Key, conf *tls.Config) *raw {
	h.t.Helper()
	qc, err := h.tr.Dial(h.t.Context(), to.Addr(), conf, &quic.Config{InitialStreamReceiveWindow: 4 << 10, MaxStreamReceiveWindow: 4 << 10})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { qc.CloseWithError(0, "") })
	return &raw{t: h.t, key: key, to: to.ID(), qc: qc}
}

// trusted is a raw connection of a trusted peer with both hellos out.
func (h *host) trusted(to *side) *raw {
	h.t.Helper()
	key := newKey(h.t)
	to.knows(key, "planner")
	c := h.dial(to, key)
	c.sendHello(nil)
	c.readHello()
	return c
}

// knows makes s trust a key.
func (s *side) knows(key *identity.Key, name string) {
	s.t.Helper()
	if _, err := s.trust.Trust(identity.Peer{ID: key.ID(), Name: name}); err != nil {
		s.t.Fatal(err)
	}
}

func (c *raw) hello() *wire.Hello {
	state := c.qc.ConnectionState().TLS
	exporter, err := state.ExportKeyingMaterial(identity.ExporterLabel, nil, 32)
	if err != nil {
		c.t.Fatal(err)
	}
	sig, err := c.key.SignHello(exporter, c.to)
	if err != nil {
		c.t.Fatal(err)
	}
	h := &wire.Hello{Name: "raw", Software: "test", MaxMessage: wire.DefaultMaxMessage, PQ: &wire.HelloPQ{Key: c.key.PublicPQ(), Sig: sig}}
	rand.Read(h.Boot[:])
	return h
}

func (c *raw) sendHello(edit func(*wire.Hello)) {
	c.t.Helper()
	h := c.hello()
	if edit != nil {
		edit(h)
	}
	c.openControl(item(c.t, h))
}

func item(t testing.TB, i wire.Item) []byte {
	t.Helper()
	b, err := wire.AppendItem(nil, i)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (c *raw) openControl(first []byte) {
	c.t.Helper()
	s, err := c.qc.OpenUniStream()
	if err != nil {
		c.t.Fatal(err)
	}
	c.out = s
	c.write(append([]byte{byte(wire.StreamControl)}, first...))
}

func (c *raw) write(b []byte) {
	c.t.Helper()
	if _, err := c.out.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *raw) readHello() *wire.Hello {
	c.t.Helper()
	s, err := c.qc.AcceptUniStream(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.in = bufio.NewReader(s)
	if b, err := c.in.ReadByte(); err != nil || wire.StreamType(b) != wire.StreamControl {
		c.t.Fatalf("stream type %#x, %v", b, err)
	}
	i, err := wire.ReadItem(c.in)
	if err != nil {
		c.t.Fatal(err)
	}
	h, ok := i.(*wire.Hello)
	if !ok {
		c.t.Fatalf("got %T before hello", i)
	}
	return h
}

// next returns the next item of type T; others are kept.
func next[T wire.Item](c *raw) T {
	c.t.Helper()
	for i, held := range c.held {
		if got, ok := held.(T); ok {
			c.held = append(c.held[:i:i], c.held[i+1:]...)
			return got
		}
	}
	for {
		i, err := wire.ReadItem(c.in)
		if err != nil {
			var want T
			c.t.Fatalf("waiting for %T: %v", want, err)
		}
		if got, ok := i.(T); ok {
			return got
		}
		c.held = append(c.held, i)
	}
}

// answerPings reads control items, and does nothing else with them.
func (c *raw) answerPings() {
	for {
		i, err := wire.ReadItem(c.in)
		if err != nil {
			return
		}
		if p, ok := i.(*wire.Ping); ok {
			b, _ := wire.AppendItem(nil, &wire.Pong{N: p.N, Pad: p.Pad})
			c.out.Write(b)
		}
	}
}

// closed waits for the end and returns its code.
func (c *raw) closed() quic.ApplicationErrorCode {
	c.t.Helper()
	<-c.qc.Context().Done()
	app := (*quic.ApplicationError)(nil)
	if err := context.Cause(c.qc.Context()); !errors.As(err, &app) || !app.Remote {
		c.t.Fatalf("ended with %v", err)
	}
	return app.ErrorCode
}

// envelope makes a valid one; edit may spoil it.
func (c *raw) envelope(kind, payload string, edit func(*wire.Envelope)) []byte {
	c.t.Helper()
	e := &wire.Envelope{V: wire.Version, ID: wire.NewMessageID(), From: c.key.ID(), To: c.to, Kind: kind, Payload: wire.Payload(payload)}
	if edit != nil {
		edit(e)
	}
	var b bytes.Buffer
	if err := e.AppendReply(&b); err != nil {
		c.t.Fatal(err)
	}
	return b.Bytes()
}

// sendUni opens a stream with these bytes and FIN.
func (c *raw) sendUni(b ...byte) *quic.SendStream {
	c.t.Helper()
	s, err := c.qc.OpenUniStreamSync(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := s.Write(b); err != nil {
		c.t.Fatal(err)
	}
	s.Close()
	return s
}

func (c *raw) openBidi(b ...byte) *quic.Stream {
	c.t.Helper()
	s, err := c.qc.OpenStreamSync(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	s.Write(b) // the other side may have reset it
	return s
}

// message sends one and returns its receipt.
func (c *raw) message(b []byte) *wire.Receipt {
	c.t.Helper()
	return c.receipt(c.sendUni(append([]byte{byte(wire.StreamMessage)}, b...)...))
}

func (c *raw) receipt(s *quic.SendStream) *wire.Receipt {
	c.t.Helper()
	r := next[*wire.Receipt](c)
	if r.Stream != uint64(s.StreamID()) {
		c.t.Fatalf("a receipt for stream %d, expected %d", r.Stream, s.StreamID())
	}
	return r
}

// exchange sends one and returns the reply, or how the stream was reset.
func (c *raw) exchange(b []byte) (*wire.Envelope, error) {
	c.t.Helper()
	s := c.openBidi(append([]byte{byte(wire.StreamExchange)}, b...)...)
	s.Close()
	return c.reply(s)
}

func (c *raw) reply(s *quic.Stream) (*wire.Envelope, error) {
	c.t.Helper()
	body, err := io.ReadAll(s)
	if err != nil {
		return nil, err
	}
	env, err := wire.ParseEnvelope(body)
	if err != nil {
		c.t.Fatalf("reply: %v", err)
	}
	return env, nil
}

// refusedWith expects an error envelope.
func (c *raw) refusedWith(b []byte, want kinds.Code) {
	c.t.Helper()
	env, err := c.exchange(b)
	if err != nil {
		c.t.Fatalf("%v, want an error %s", err, want)
	}
	if env.Kind != kinds.KindError {
		c.t.Fatalf("got %s, want an error %s", env.Kind, want)
	}
	if e, err := kinds.Parse[kinds.Error](env.Payload); err != nil || e.Code != want {
		c.t.Errorf("got %v, %v; want %s", e, err, want)
	}
}

// alive expects that the connection still serves.
func (c *raw) alive() {
	c.t.Helper()
	if env, err := c.exchange(c.envelope(kinds.KindPing, "", nil)); err != nil || env.Kind != kinds.KindPong {
		c.t.Fatalf("the connection is not alive: %v", err)
	}
}

// resetWith expects that the peer has reset the stream.
func resetWith(t testing.TB, err error, want quic.StreamErrorCode) {
	t.Helper()
	if se := (*quic.StreamError)(nil); !errors.As(err, &se) || !se.Remote || se.ErrorCode != want {
		t.Errorf("got %v, want the stream code %d", err, want)
	}
}

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
		"none":                  {func(c *raw) {}, closeHelloTimeout, helloTime},
		"stream type alone":     {func(c *raw) { c.openControl(nil) }, closeHelloTimeout, helloTime},
		"half":                  {func(c *raw) { c.openControl(item(c.t, c.hello())[:50]) }, closeHelloTimeout, helloTime},
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
				b, h := w.side(nil), w.host()
				w.start()
				b.serve()
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
		b, h := w.side(nil), w.host()
		w.start()
		b.serve()
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

func TestWhatAPeerMaySend(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.side(nil), w.host()
		w.start()
		b.serve()
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
		b, h := w.side(nil), w.host()
		w.start()
		b.serve()
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

func TestStrangers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b := w.side(nil)
		var hosts []*host
		for range 9 {
			hosts = append(hosts, w.host())
		}
		w.start()
		b.serve()

		// One that says hello hears nothing but the refusal.
		c := hosts[0].dial(b, newKey(t))
		c.sendHello(func(h *wire.Hello) { h.Name = "lap\x1b[31mtop" })
		if _, err := c.qc.AcceptUniStream(t.Context()); err == nil {
			t.Error("a stranger was greeted")
		}
		if got := c.closed(); got != closeNotTrusted {
			t.Errorf("close code %d", got)
		}
		if p := b.Pending(); len(p) != 1 || p[0].ID != c.key.ID() || p[0].Claim != "lap[31mtop" {
			t.Errorf("pending: %+v", p)
		}

		// One that lies in its hello leaves no trace, nor one that is silent.
		c = hosts[0].dial(b, newKey(t))
		c.sendHello(func(h *wire.Hello) { h.PQ.Sig[0] ^= 1 })
		if got := c.closed(); got != closeProtocolError {
			t.Errorf("close code %d", got)
		}
		start := time.Now()
		c = hosts[0].dial(b, newKey(t))
		if got, took := c.closed(), time.Since(start); got != closeHelloTimeout || took < strangerTime || took > strangerTime+20*latency {
			t.Errorf("close code %d after %v", got, took)
		}

		// Two of one source are heard, and eight in all.
		var waiting []*raw
		for range 3 {
			waiting = append(waiting, hosts[0].dial(b, newKey(t)))
		}
		start = time.Now()
		if got := waiting[2].closed(); got != closeNotTrusted || time.Since(start) > 10*latency {
			t.Errorf("the third of one source: close code %d after %v", got, time.Since(start))
		}
		for _, h := range hosts[1:7] {
			waiting = append(waiting, h.dial(b, newKey(t)))
		}
		late := hosts[7].dial(b, newKey(t))
		if got := late.closed(); got != closeNotTrusted || time.Since(start) > strangerTime/2 {
			t.Errorf("the ninth: close code %d after %v", got, time.Since(start))
		}
		// A trusted peer is not in their way, nor they in its.
		hosts[8].trusted(b).alive()
		for i, c := range waiting {
			if i != 2 && c.closed() != closeHelloTimeout {
				t.Error("a silent stranger was not closed for that")
			}
		}
		if n := len(b.Pending()); n != 1 {
			t.Errorf("%d pending, want 1", n)
		}
	})
}

func TestTrustedWhileItsHelloIsAwaited(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.side(nil), w.host()
		w.start()
		b.serve()
		c := h.dial(b, newKey(t))
		time.Sleep(100 * time.Millisecond)
		b.knows(c.key, "laptop")
		b.Connect(c.key.ID())
		c.sendHello(nil)
		c.closed()
		time.Sleep(time.Second)
		if len(b.Pending()) != 0 || b.saw(EventIdentityConflict) != 0 {
			t.Errorf("pending %+v, conflicts %d", b.Pending(), b.saw(EventIdentityConflict))
		}
	})
}

func TestPendingTable(t *testing.T) {
	var table pendingTable
	now := time.Now()
	id := func(n int) (id identity.ID) { id[0], id[1] = byte(n), byte(n>>8); id[31] = 1; return id }
	v4 := func(n int) net.Addr { return &net.UDPAddr{IP: net.IPv4(10, 0, byte(n>>8), byte(n))} }
	v6 := func(s string) net.Addr { return &net.UDPAddr{IP: net.ParseIP(s)} }
	add := func(n int, at time.Duration, from net.Addr) bool {
		return table.add(Pending{ID: id(n), At: now.Add(at)}, from)
	}
	if !add(1, 0, v4(1)) || add(1, 29*time.Second, v4(1)) || !add(1, 30*time.Second, v4(2)) {
		t.Error("a key is news at most every 30 s")
	}
	for n := range 6 {
		add(10+n, 0, v4(7))
	}
	if n := len(table.entries); n != 1+4 {
		t.Errorf("%d entries, want 4 of one source beside the first", n)
	}
	if _, ok := table.take(id(11)); ok {
		t.Error("the oldest of one source did not give way")
	}
	for n, ip := range []string{"2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1", "2001:db8:0:4::1", "2001:db8:0:ff::1", "2001:db8:0:100::1"} {
		add(20+n, 0, v6(ip))
	}
	if _, ok := table.take(id(20)); ok {
		t.Error("a /56 counts as more than one source")
	}
	if _, ok := table.take(id(25)); !ok {
		t.Error("another /56 is missing")
	}
	for n := range 200 {
		add(1000+n, 0, v4(1000+n))
	}
	if n := len(table.entries); n != maxPending {
		t.Errorf("%d entries, want %d", n, maxPending)
	}
	if _, ok := table.take(id(1000 + 199)); !ok {
		t.Error("the newest is missing")
	}
}

// forge makes a client that shows the victim's certificate but holds another key.
func forge(t testing.TB, victim *identity.Key, alpn string) *tls.Config {
	t.Helper()
	own := newKey(t)
	shown := certificate(t, victim)
	held := certificate(t, own)
	forged := &tls.Certificate{Certificate: shown.Certificate, PrivateKey: held.PrivateKey}
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		InsecureSkipVerify:   true,
		NextProtos:           []string{alpn},
		Certificates:         []tls.Certificate{*forged},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return forged, nil },
	}
}

func certificate(t testing.TB, key *identity.Key) *tls.Certificate {
	t.Helper()
	conf, err := key.ClientTLS(key.ID(), false, identity.ALPN)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := conf.GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestForger shows a foreign certificate, as a client and as a server: nobody is
// accepted, or becomes pending, with a key that it does not hold.
func TestForger(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		for _, alpn := range []string{identity.ALPN, identity.ALPNJoin} {
			bubble(t, nil, func(t *testing.T, w *network) {
				b, h := w.side(nil), w.host()
				w.start()
				b.serve()
				victim := newKey(t)
				if trusted {
					b.knows(victim, "planner")
				}
				token, _, err := b.Invitations().Open(0, "")
				if err != nil {
					t.Fatal(err)
				}
				qc, err := h.tr.Dial(t.Context(), b.Addr(), forge(t, victim, alpn), nil)
				if err == nil {
					// A client believes in the connection before the server has judged it.
					c := &raw{t: t, key: victim, to: b.ID(), qc: qc}
					if alpn == identity.ALPNJoin {
						body, _ := wire.Marshal(joinRequest{V: 1, Token: token[:], Name: "planner"})
						c.openBidi(append([]byte{byte(wire.StreamJoin)}, body...)...).Close()
					} else {
						c.openControl(item(t, c.hello()))
						c.openBidi(append([]byte{byte(wire.StreamExchange)}, c.envelope(kinds.KindPing, "", nil)...)...).Close()
					}
					<-qc.Context().Done()
					err = context.Cause(qc.Context())
				}
				if te := (*quic.TransportError)(nil); !errors.As(err, &te) || !te.ErrorCode.IsCryptoError() {
					t.Errorf("the forger heard %v, want an error of TLS", err)
				}
				time.Sleep(5 * time.Second)
				if len(b.Pending()) != 0 || len(b.Peers()) != 0 || len(b.received()) != 0 || b.saw(EventUp)+b.saw(EventPending)+b.saw(EventTrust)+b.saw(EventIdentityConflict) != 0 {
					t.Errorf("trusted %v, %s: the forger was taken for its victim", trusted, alpn)
				}
				if _, now := b.trust.Get(victim.ID()); now != trusted {
					t.Error("the victim's trust changed")
				}
			})
		}
	}
	t.Run("server", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, w *network) {
			a, h := w.side(nil), w.host()
			w.start()
			a.serve()
			victim := newKey(t)
			conf := forge(t, victim, identity.ALPN)
			conf.ClientAuth = tls.RequireAnyClientCert
			l, err := h.tr.Listen(conf, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			a.trust.Trust(identity.Peer{ID: victim.ID(), Name: "reviewer", Addrs: []string{h.tr.Conn.LocalAddr().String()}})
			_, _, err = a.Exchange(t.Context(), victim.ID(), query("is it you?"))
			if e := kinds.AsError(err); e.Code != kinds.Unreachable || e.Delivered() != kinds.DeliveredNo {
				t.Errorf("got %v", err)
			}
			if a.saw(EventUp) != 0 {
				t.Error("the forger was accepted")
			}
		})
	})
}
