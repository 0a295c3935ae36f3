package peer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"testing"

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

// hosts makes so many.
func (w *network) hosts(n int) []*host {
	all := make([]*host, n)
	for i := range all {
		all[i] = w.host()
	}
	return all
}

// facing is a served node and a host that faces it.
func (w *network) facing(edit func(*Config)) (*side, *host) {
	s, h := w.side(edit), w.host()
	w.start()
	return s.serve(), h
}

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
	return h.dialAt(to.Addr(), to, key, identity.ALPN, &quic.Config{InitialStreamReceiveWindow: 4 << 10, MaxStreamReceiveWindow: 4 << 10})
}

// dialAt dials a node at an address, under a protocol.
func (h *host) dialAt(addr net.Addr, to *side, key *identity.Key, alpn string, config *quic.Config) *raw {
	h.t.Helper()
	conf, err := key.ClientTLS(to.ID(), false, alpn)
	if err != nil {
		h.t.Fatal(err)
	}
	qc, err := h.tr.Dial(h.t.Context(), addr, conf, config)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { qc.CloseWithError(0, "") })
	return &raw{t: h.t, key: key, to: to.ID(), qc: qc}
}

// joining is a connection of a new key, to redeem an invitation.
func (h *host) joining(to *side) *raw {
	h.t.Helper()
	return h.dialAt(to.Addr(), to, newKey(h.t), identity.ALPNJoin, nil)
}

// greet makes the connection ready.
func (c *raw) greet() *raw {
	c.t.Helper()
	c.sendHello(nil)
	c.readHello()
	return c
}

// trusted is a raw connection of a trusted peer with both hellos out.
func (h *host) trusted(to *side) *raw {
	h.t.Helper()
	key := newKey(h.t)
	to.knows(key, "planner")
	return h.dial(to, key).greet()
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
	b, err := wire.AppendControlItem(nil, i)
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
	i, err := wire.ReadControlItem(c.in)
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
		i, err := wire.ReadControlItem(c.in)
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
		i, err := wire.ReadControlItem(c.in)
		if err != nil {
			return
		}
		if p, ok := i.(*wire.Ping); ok {
			b, _ := wire.AppendControlItem(nil, &wire.Pong{N: p.N, Pad: p.Pad})
			c.out.Write(b)
		}
	}
}

// closed waits for the end and returns its code.
func (c *raw) closed() quic.ApplicationErrorCode {
	c.t.Helper()
	<-c.qc.Context().Done()
	err := context.Cause(c.qc.Context())
	app, ok := errors.AsType[*quic.ApplicationError](err)
	if !ok || !app.Remote {
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
	if err := e.Append(&b); err != nil {
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
	if e, err := kinds.ParsePayload[kinds.Error](env.Payload); err != nil || e.Code != want {
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
	if se, ok := errors.AsType[*quic.StreamError](err); !ok || !se.Remote || se.ErrorCode != want {
		t.Errorf("got %v, want the stream code %d", err, want)
	}
}
