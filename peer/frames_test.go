package peer

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// TestQUICIsLaidOutAsKnown compares what countUnreadFrames looks at with quic-go's types.
func TestQUICIsLaidOutAsKnown(t *testing.T) {
	field := func(v reflect.Type, name, want string) reflect.Type {
		t.Helper()
		f, ok := v.FieldByName(name)
		if !ok || f.Type.String() != want {
			t.Fatalf("%v.%s is %v, want %s", v, name, f.Type, want)
		}
		return f.Type
	}
	streams := field(reflect.TypeFor[quic.Conn](), "streamsMap", "*quic.streamsMap").Elem()
	for name, of := range map[string]string{"incomingBidiStreams": "*quic.Stream", "incomingUniStreams": "*quic.ReceiveStream"} {
		m, _ := streams.FieldByName(name)
		field(m.Type.Elem(), "mutex", "sync.RWMutex")
		all, _ := m.Type.Elem().FieldByName("streams")
		field(all.Type.Elem(), "stream", of)
	}
	out, _ := streams.FieldByName("outgoingBidiStreams")
	field(out.Type.Elem(), "mutex", "sync.RWMutex")
	field(out.Type.Elem(), "streams", "map[protocol.StreamID]*quic.Stream")
	read := field(reflect.TypeFor[quic.Stream](), "receiveStr", "*quic.ReceiveStream").Elem()
	field(read, "mutex", "sync.Mutex")
	queue := field(read, "frameQueue", "*quic.frameSorter").Elem()
	field(queue, "queue", "map[protocol.ByteCount]quic.frameSorterEntry")
}

// TestUnreadFramesAreCounted opens streams of which the handler reads nothing.
func TestUnreadFramesAreCounted(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		b, h := w.side(nil), w.host()
		b.Handle(wire.StreamMail, "mail", func(ctx context.Context, _ identity.ID, s *Stream) { <-ctx.Done() })
		w.serve(b)
		c := h.trusted(b)
		for range 10 {
			s := c.openBidi(byte(wire.StreamMail))
			for range 20 {
				time.Sleep(latency)
				s.Write([]byte{1})
			}
		}
		time.Sleep(time.Second)
		conn := b.listConns()[0]
		if n := countUnreadFrames(conn.qc); n != 10*20 {
			t.Errorf("%d frames, want %d", n, 10*20)
		}
		c.qc.CloseWithError(0, "")
	})
}
