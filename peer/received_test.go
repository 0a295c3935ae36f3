package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// fillRandom returns bytes that differ from those of any other call.
func fillRandom(size int) []byte {
	text := make([]byte, size)
	for i := range text {
		text[i] = byte(rand.Uint32())
	}
	return text
}

// What comes is joined whole however it comes, memory for at most one more piece is taken, and none
// of it is used by others later.
func TestReceivedInPieces(t *testing.T) {
	const piece = pieceBytes
	joined := map[string][]byte{}
	for _, size := range []int{0, 1, firstBytes - 1, firstBytes, firstBytes + 1, firstBytes + piece - 1, firstBytes + piece, firstBytes + piece + 1, firstBytes + 3*piece, 300_001} {
		for how, wrap := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "bytewise": iotest.OneByteReader, "halves": iotest.HalfReader, "with its end": iotest.DataErrReader} {
			text := fillRandom(size)
			in := newReceived()
			came := 0
			reserved, err := in.readLimited(wrap(bytes.NewReader(text)), size, reserveFunc(func(n int64) error {
				came += int(n)
				if taken := len(in.pieces) * piece; taken > max(0, came-firstBytes)+piece {
					t.Fatalf("%d bytes %s: %d are taken for %d", size, how, taken, came)
				}
				return nil
			}))
			got := in.joinPieces()
			if err != nil || came != size || reserved != int64(size) || !bytes.Equal(got, text) || in.isShort() != (size <= firstBytes) {
				t.Fatalf("%d bytes %s: %v, %d reserved, %d joined", size, how, err, reserved, len(got))
			}
			in.release()
			joined[string(text)] = got
		}
	}
	for want, got := range joined {
		if want != string(got) {
			t.Errorf("%d bytes have changed", len(got))
		}
	}
}

// reserveFunc is a reserver.
type reserveFunc func(int64) error

func (f reserveFunc) Reserve(n int64) error { return f(n) }

// endless gives bytes without an end.
type endless struct{ given int }

func (e *endless) Read(b []byte) (int, error) {
	e.given += len(b)
	return len(b), nil
}

func TestReceivedIsBounded(t *testing.T) {
	for _, limit := range []int{0, 10, firstBytes, 100_000} {
		in, from := newReceived(), new(endless)
		if _, err := in.readLimited(from, limit, nil); err != errTooLarge || from.given > limit+max(firstBytes, pieceBytes) {
			t.Errorf("%d bytes: %v after %d", limit, err, from.given)
		}
		in.release()
	}
	full := errors.New("full")
	in, from := newReceived(), new(endless)
	defer in.release()
	var taken int64
	if reserved, err := in.readLimited(from, 1<<20, reserveFunc(func(n int64) error {
		if from.given > 50_000 {
			return full
		}
		taken += n
		return nil
	})); err != full || from.given > 50_000+pieceBytes || reserved != taken {
		t.Errorf("%v after %d bytes, %d of %d reserved", err, from.given, reserved, taken)
	}
}

// TestLargeEnvelopesTakeLittleMemory: what is read, in memory that has to be made, is once the size;
// pieces may have to be made too, if the collector has taken them.
func TestLargeEnvelopesTakeLittleMemory(t *testing.T) {
	const size = 1 << 20
	text := fillRandom(size)
	least := uint64(1 << 62)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		in := newReceived()
		if _, err := in.readLimited(bytes.NewReader(text), size, nil); err != nil {
			t.Fatal(err)
		}
		in.joinPieces()
		in.release()
		out := outgoing{buf: new(bytes.Buffer)}
		if err := out.append(wire.NewEnvelope(identity.ID{1}, identity.ID{2}, kinds.KindQuery, text)); err != nil || out.size() < size {
			t.Fatal(err, out.size())
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > 5*size/2 {
		t.Errorf("%d bytes were allocated for a message of %d that came and went", least, size)
	}
}

// recordedStream keeps what is written to it.
type recordedStream struct {
	bytes.Buffer
	closed bool
}

func (s *recordedStream) Close() error { s.closed = true; return nil }

// What could not be encoded holds no buffer: another envelope may have that by now.
func TestOutgoingOfNoTextIsEmpty(t *testing.T) {
	env := wire.NewEnvelope(identity.ID{1}, identity.ID{2}, kinds.KindQuery, nil)
	env.Thread = "\xff"
	for name, encode := range map[string]func() (outgoing, error){
		"a request": func() (outgoing, error) { return encode(env, 1) },
		"a reply":   func() (outgoing, error) { return encode(env) },
	} {
		if out, err := encode(); err == nil || out.buf != nil || out.payload != nil {
			t.Errorf("%s: %v, a buffer: %v", name, err, out.buf != nil)
		}
	}
}

// A payload that is not copied stands where one that is copied stands.
func TestOutgoingIsWhatIsEncoded(t *testing.T) {
	for _, size := range []int{0, 100, splicedBytes - 1, splicedBytes, 300_000} {
		for _, agent := range []string{"", "reviewer"} {
			env := wire.NewEnvelope(identity.ID{1}, identity.ID{2}, kinds.KindQuery, nil)
			env.FromAgent, env.Thread = agent, "t"
			if size > 0 {
				env.Payload = fmt.Appendf(nil, `{"q":"%s"}`, strings.Repeat("x", size-len(`{"q":""}`)))
			}
			var want bytes.Buffer
			if err := env.Append(&want); err != nil {
				t.Fatal(err)
			}
			for typ, encode := range map[string]func() (outgoing, error){
				"\x01": func() (outgoing, error) { return encode(env, 1) },
				"":     func() (outgoing, error) { return encode(env) },
			} {
				out, err := encode()
				if err != nil || out.size() != len(typ)+want.Len() || (out.payload != nil) != (size >= splicedBytes) {
					t.Fatalf("%d bytes of %q: %v, %d bytes, spliced: %v", size, agent, err, out.size(), out.payload != nil)
				}
				var got recordedStream
				if err := out.writeAndClose(&got); err != nil || !got.closed || got.String() != typ+want.String() {
					t.Errorf("%d bytes of %q: %v, closed: %v, %d bytes, want %d", size, agent, err, got.closed, got.Len(), want.Len()+len(typ))
				}
				out.release() // a second time
			}
		}
	}
}

// Envelopes of every size cross both ways, with all their fields, and what was read of one stays when
// others have come.
func TestLargeEnvelopesCross(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(nil)
		var sent, replies []*wire.Envelope
		for _, size := range []int{1000, firstBytes, splicedBytes, splicedBytes + 1000, 200_000, wire.DefaultMaxMessage - 1000} {
			env := sized(t, kinds.KindQuery, `{"question":"`+fmt.Sprint(size)+`%s"}`, size)
			env.FromAgent, env.Thread = "planner", "t"
			reply, _, err := a.Exchange(t.Context(), b.ID(), env)
			if err != nil {
				t.Fatal(size, err)
			}
			replies, sent = append(replies, reply), append(sent, env)
			if _, err := a.Send(t.Context(), b.ID(), sized(t, kinds.KindNotify, noteOf, size), true); err != nil {
				t.Fatal(size, err)
			}
		}
		got := b.received()
		for i, env := range sent {
			j := 2 * i
			if d := cmp.Diff(env, got[j], cmpopts.IgnoreFields(wire.Envelope{}, "V", "ID", "From", "To", "TS", "Payload")); d != "" || !bytes.Equal(env.Payload, got[j].Payload) {
				t.Errorf("%d bytes: %s", len(env.Payload), d)
			}
			question, err := kinds.ParsePayload[kinds.Query](env.Payload)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := kinds.ParsePayload[kinds.Response](replies[i].Payload)
			if err != nil || !strings.Contains(answer.Summary, question.Question) {
				t.Errorf("the reply to %d bytes is another one, of %d: %v", len(env.Payload), len(replies[i].Payload), err)
			}
		}
	})
}

// patientStream gives a byte after each wait, and then nothing. Its deadline is that of a stream.
type patientStream struct {
	waits    []time.Duration
	deadline time.Time
	next     time.Time // when the next byte comes
}

func (s *patientStream) SetReadDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

func (s *patientStream) Read(b []byte) (int, error) {
	if s.next.IsZero() {
		if s.next = time.Now().Add(time.Hour); len(s.waits) > 0 {
			s.next = time.Now().Add(s.waits[0])
			s.waits = s.waits[1:]
		}
	}
	if s.deadline.Before(s.next) {
		time.Sleep(time.Until(s.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(time.Until(s.next))
	s.next = time.Time{}
	return 1, nil
}

func TestSteadyReader(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		waits []time.Duration
		bytes int
		ends  time.Duration
	}{
		"silence":          {nil, 0, byteTime},
		"one byte":         {[]time.Duration{4 * s}, 1, 4*s + byteTime},
		"late byte":        {[]time.Duration{9 * s, 9 * s}, 2, 18*s + byteTime},
		"byte after it":    {[]time.Duration{9 * s, 11 * s}, 1, 9*s + byteTime},
		"drops for a time": {[]time.Duration{9 * s, 9 * s, 9 * s, 9 * s, 9 * s, 9 * s, 9 * s}, 6, envelopeTime},
		"a few at once":    {[]time.Duration{0, 0, 0, 1}, 4, 1 + byteTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			stream := &patientStream{waits: c.waits, deadline: start.Add(byteTime)}
			n, err := io.Copy(io.Discard, &steadyReader{stream: stream, heard: start, end: start.Add(envelopeTime)})
			if took := time.Since(start); int(n) != c.bytes || !errors.Is(err, os.ErrDeadlineExceeded) || took != c.ends {
				t.Errorf("%s: %d bytes, %v, after %v, want %d after %v", name, n, err, took, c.bytes, c.ends)
			}
		})
	}
}
