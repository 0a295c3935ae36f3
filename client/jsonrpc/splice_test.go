package jsonrpc

import (
	"bytes"
	"errors"
	"strings"
	"testing"

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
