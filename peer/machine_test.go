package peer

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Keys of FuzzConnection, made once: they take longer than a run.
var fuzzKeys = sync.OnceValue(func() (keys [3]*identity.Key) {
	for i := range keys {
		keys[i], _ = identity.GenerateKey()
	}
	return keys
})

// program lists the actions of a trusted peer on its connection, a byte or some a step.
type program struct {
	*raw
	left []byte
	bidi []*quic.Stream
	uni  []*quic.SendStream
}

func (p *program) next() (b byte) {
	if len(p.left) > 0 {
		b, p.left = p.left[0], p.left[1:]
	}
	return b
}

// bytes are the next, up to 255.
func (p *program) bytes() []byte {
	n := min(int(p.next()), len(p.left))
	b := p.left[:n]
	p.left = p.left[n:]
	return b
}

// some returns one of a list.
func some[T any](p *program, all []T) (one T, ok bool) {
	if len(all) == 0 {
		return one, false
	}
	return all[int(p.next())%len(all)], true
}

// message returns a message of a kind that the node knows, or nearly.
func (p *program) message() []byte {
	of := []struct{ kind, payload string }{
		{kinds.KindPing, ""}, {kinds.KindQuery, `{"question":"?"}`}, {kinds.KindQuery, `{"question":"wait"}`},
		{kinds.KindNotify, `{"topic":"a.b"}`}, {kinds.KindCancel, ""}, {"other", "{}"},
	}[int(p.next())%6]
	b := p.envelope(of.kind, of.payload, func(e *wire.Envelope) {
		if of.kind == kinds.KindCancel {
			e.Ref = &e.ID
		}
	})
	if cut := int(p.next()); cut < len(b) && cut > 0 {
		b = b[:cut]
	}
	return b
}

// item is a control item of any type.
func (p *program) item() wire.Item {
	n := uint64(p.next())
	switch p.next() % 7 {
	case 0:
		return &wire.Receipt{Stream: n, State: wire.ReceiptState(p.next() % 3)}
	case 1:
		return &wire.Goaway{Code: n}
	case 2:
		return &wire.Ping{N: n, Pad: p.bytes()}
	case 3:
		return &wire.Pong{N: n, Pad: p.bytes()}
	case 4:
		return &wire.Done{}
	case 5:
		return p.hello()
	}
	return &wire.Receipt{Stream: n, State: wire.Refused, Code: string(kinds.Overloaded), Message: string(p.bytes())}
}

// step does one thing; writes do not wait for the node.
func (p *program) step(b *side) {
	now := time.Now().Add(time.Millisecond)
	switch p.next() % 14 {
	case 0, 1: // an exchange, or the beginning of one
		if s, err := p.qc.OpenStream(); err == nil {
			p.bidi = append(p.bidi, s)
			s.SetWriteDeadline(now)
			s.Write(append([]byte{byte(wire.StreamExchange)}, p.message()...))
		}
	case 2, 3:
		if s, err := p.qc.OpenUniStream(); err == nil {
			p.uni = append(p.uni, s)
			s.SetWriteDeadline(now)
			s.Write(append([]byte{byte(wire.StreamMessage)}, p.message()...))
		}
	case 4: // a stream of any type
		if s, err := p.qc.OpenStream(); err == nil {
			p.bidi = append(p.bidi, s)
			s.SetWriteDeadline(now)
			s.Write(p.bytes())
		}
	case 5:
		if s, err := p.qc.OpenUniStream(); err == nil {
			p.uni = append(p.uni, s)
			s.SetWriteDeadline(now)
			s.Write(p.bytes())
		}
	case 6:
		if s, ok := some(p, p.bidi); ok {
			s.SetWriteDeadline(now)
			s.Write(p.bytes())
		}
	case 7:
		if s, ok := some(p, p.bidi); ok {
			s.Close()
		}
		if s, ok := some(p, p.uni); ok {
			s.Close()
		}
	case 8:
		if s, ok := some(p, p.bidi); ok {
			s.CancelWrite(quic.StreamErrorCode(p.next()))
		}
		if s, ok := some(p, p.uni); ok {
			s.CancelWrite(quic.StreamErrorCode(p.next()))
		}
	case 9:
		if s, ok := some(p, p.bidi); ok {
			s.CancelRead(quic.StreamErrorCode(p.next()))
		}
	case 10:
		if p.out != nil {
			p.out.SetWriteDeadline(now)
			if i, err := wire.AppendControlItem(nil, p.item()); err == nil {
				p.out.Write(i)
			}
		}
	case 11: // what the node opens, answered with anything
		ctx, cancel := context.WithTimeout(context.Background(), 20*latency)
		defer cancel()
		if s, err := p.qc.AcceptStream(ctx); err == nil {
			s.SetDeadline(now)
			s.Write(p.message())
			p.bidi = append(p.bidi, s)
		}
	case 12:
		time.Sleep(time.Duration(p.next()) * 10 * time.Millisecond)
	case 13:
		if p.out != nil {
			p.out.SetWriteDeadline(now)
			p.out.Write(p.bytes())
		}
	}
}

// FuzzConnection has a trusted peer do anything on its connection, in any order:
// streams, control items, resets, before its hello and after. Whatever it does, the
// node's calls to it end by their deadlines, all that it held is given back, and
// another peer notices nothing.
func FuzzConnection(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 7, 0, 12, 5})                                            // an exchange
	f.Add([]byte{1, 2, 3, 0, 7, 0, 0, 12, 5, 10, 2, 0, 0})                            // a message, a receipt
	f.Add([]byte{1, 10, 0, 1, 10, 0, 4, 12, 5, 10, 0, 4, 12, 200})                    // goaway, done, done
	f.Add([]byte{0, 4, 3, 0xff, 1, 2, 5, 2, 0, 1, 12, 255, 12, 255})                  // streams without hello
	f.Add([]byte{1, 0, 2, 0, 8, 0, 2, 0, 9, 0, 3, 0, 1, 0, 6, 0, 3, 1, 2, 3, 12, 20}) // resets
	f.Add([]byte{1, 11, 0, 0, 7, 0, 0, 13, 4, 0x02, 0x81, 0x05, 0x00, 10, 1, 5})      // answers, bytes, a second hello
	f.Add([]byte{1, 4, 2, 3, 9, 6, 0, 4, 1, 2, 3, 4, 4, 1, 4, 5, 1, 0, 12, 100})      // bridges, a second control stream
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 512 {
			return // longer ones show nothing more
		}
		synctest.Test(t, func(t *testing.T) {
			w, keys := newNetwork(t, nil), fuzzKeys()
			release := make(chan struct{})
			b := w.side(func(c *Config) { c.Key = keys[0]; until(release)(c) })
			b.Handle(wire.StreamMail, "mail", func(_ context.Context, _ identity.ID, s *Stream) {
				s.SetReadDeadline(time.Now().Add(time.Second))
				io.Copy(s, s)
			})
			h, other := w.host(), w.host()
			w.serve(b)
			b.knows(keys[1], "planner")
			b.knows(keys[2], "laptop")
			honest := other.again(b, keys[2])
			p := &program{raw: h.dial(b, keys[1]), left: text}
			if p.next()%4 > 0 {
				p.sendHello(nil)
			}
			var calls sync.WaitGroup
			for range 2 {
				calls.Go(func() { bounded(t, func(ctx context.Context) { b.Exchange(ctx, keys[1].ID(), query("?")) }) })
				calls.Go(func() { bounded(t, func(ctx context.Context) { b.Send(ctx, keys[1].ID(), notify("a.b"), true) }) })
			}
			for len(p.left) > 0 && p.qc.Context().Err() == nil {
				p.step(b)
			}
			honest.alive()
			calls.Wait()
			p.qc.CloseWithError(0, "")
			close(release)
			time.Sleep(time.Second)
			honest.alive()
			id := keys[1].ID()
			for name, held := range map[string]int64{
				"streams": b.findOrCreateState(id).streams.Used(), "envelopes": b.findOrCreateState(id).envelopes.Used(), "replies": b.findOrCreateState(id).replies.Used(),
				"connections": b.accounts.connections.HeldBy(id), "greeting": b.accounts.greeting.HeldBy(id), "unread": b.unread.account.HeldBy(id),
			} {
				if held != 0 {
					t.Errorf("%d %s still count", held, name)
				}
			}
			if n := b.udp.gates.handshakes.open.Load(); n != 0 {
				t.Errorf("%d handshakes still count", n)
			}
		})
	})
}

// bounded makes a call with a deadline and checks that it kept it.
func bounded(t *testing.T, call func(context.Context)) {
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	start := time.Now()
	call(ctx)
	if took := time.Since(start); took > limit+time.Millisecond {
		t.Errorf("a call with a deadline of %v took %v", limit, took)
	}
}
