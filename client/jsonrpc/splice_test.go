package jsonrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A batch is the same text with a spliced payload, wherever a write ends.
func TestSplicedBatch(t *testing.T) {
	large := wire.Payload(`{"a":"` + strings.Repeat("x", splicedBytes) + `"}`)
	for name, c := range map[string]struct {
		payload wire.Payload
		spliced bool
	}{
		"none": {nil, false}, "small": {wire.Payload(`{"a":1}`), false}, "large": {large, true},
		"with a line feed": {append(wire.Payload("{\n"), large[1:]...), false}, "with a carriage return": {append(wire.Payload("{\r"), large[1:]...), false},
	} {
		var copied, spliced lineBatch
		v := question{To: "reviewer", Payload: c.payload}
		copied.text = append(copied.text, "{"...)
		spliced.text = append(spliced.text, "{"...)
		if err := errors.Join(copied.appendValue(v, false), spliced.appendValue(v, true)); err != nil {
			t.Fatal(err)
		}
		copied.text, spliced.text = append(copied.text, "}\n"...), append(spliced.text, "}\n"...)
		if got := spliced.spliced != nil; got != c.spliced || spliced.size() != copied.size() || bytes.Count(copied.text, []byte("\n")) != 1 {
			t.Errorf("%s: spliced: %v, %d bytes in place of %d", name, got, spliced.size(), copied.size())
		}
		for _, step := range []int{1, 1000, 1 << 20} {
			var got []byte
			for n := 0; n < spliced.size(); {
				if step > 1 && !bytes.Equal(bytes.Join(spliced.appendPartsFrom(nil, n), nil), copied.text[n:]) {
					t.Fatalf("%s: other parts follow %d bytes", name, n)
				}
				part := spliced.sliceFrom(n)
				if len(part) == 0 {
					t.Fatalf("%s: nothing follows %d of %d bytes", name, n, spliced.size())
				}
				part = part[:min(len(part), step)]
				got = append(got, part...)
				n += len(part)
			}
			if !bytes.Equal(got, copied.text) || len(spliced.sliceFrom(len(got))) > 0 {
				t.Errorf("%s: in steps of %d, another text", name, step)
			}
		}
	}
}

// Large and small calls at once reach the other end whole, both ways, and so do their answers.
func TestSplicedCallsCross(t *testing.T) {
	answer := func(_ context.Context, _ *Conn, r *Request) {
		var q question
		if err := r.ReadParams(&q); err != nil {
			r.RespondError(err)
			return
		}
		r.Respond(q)
	}
	o := Options{Handler: answer, SplicePayloads: true}
	near, far := pair(t, o, o)
	var calls sync.WaitGroup
	for i := range 40 {
		from := near
		if i%2 == 1 {
			from = far
		}
		calls.Go(func() {
			for j, size := range []int{10, splicedBytes, 300_000, 20, splicedBytes - 20} {
				q := question{To: fmt.Sprint(i, " ", j), Payload: fmt.Appendf(nil, `{"a":"%s"}`, strings.Repeat(string(rune('a'+(i+j)%26)), size))}
				var r question
				if err := from.Call(t.Context(), "echo", q, &r); err != nil || r.To != q.To || !bytes.Equal(r.Payload, q.Payload) {
					t.Errorf("call %s: %v, answer to %s", q.To, err, r.To)
				}
			}
		})
	}
	calls.Wait()
}

// The bound of a line counts a spliced payload.
func TestSplicedLineIsBounded(t *testing.T) {
	near, _ := pair(t, Options{SplicePayloads: true, MaxLine: 200_000}, Options{})
	q := question{Payload: wire.Payload(`{"a":"` + strings.Repeat("x", 200_000) + `"}`)}
	if err := near.Call(t.Context(), "echo", q, nil); kinds.AsError(err).Code != kinds.TooLarge {
		t.Errorf("got %v", err)
	}
	if err := near.Err(); err != nil {
		t.Errorf("the connection has ended: %v", err)
	}
}
