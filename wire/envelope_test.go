package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// The smallest envelope, and one that uses every field.
func minimal() *wire.Envelope {
	return &wire.Envelope{V: wire.Version, ID: wire.MessageID{1}, From: identity.ID{2}, To: identity.ID{3}, Kind: "ping"}
}

func full() *wire.Envelope {
	return &wire.Envelope{
		V: wire.Version, ID: wire.NewMessageID(), From: identity.ID{2}, To: identity.ID{3}, TS: 1771108000123, Kind: "result",
		Ref: &wire.MessageID{4}, Payload: wire.Payload(`{"status":"completed","outcome":"ok 👍","n":9223372036854775807}`),
		Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Agent: "reviewer", Thread: "release", Hops: 16, FromAgent: "planner",
	}
}

func encode(t testing.TB, e *wire.Envelope) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := e.Append(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestEnvelopeSurvivesBothCodings(t *testing.T) {
	for _, want := range []*wire.Envelope{minimal(), full()} {
		got, err := wire.ParseEnvelope(encode(t, want))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("CBOR: %s", d)
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got = new(wire.Envelope)
		if err := json.Unmarshal(text, got); err != nil {
			t.Fatal(err)
		}
		if want.Payload = wire.Payload(want.Payload.Object()); !cmp.Equal(want, got) {
			t.Errorf("JSON: %s", cmp.Diff(want, got))
		}
	}
}

// What stands around a payload, with the payload in its place, is the whole.
func TestAppendAroundPayload(t *testing.T) {
	for _, edit := range []func(*wire.Envelope){
		func(*wire.Envelope) {},
		func(e *wire.Envelope) { e.FromAgent = "" },
		func(e *wire.Envelope) { e.Payload = nil },
		func(e *wire.Envelope) { e.Payload = wire.Payload(`{"a":"` + strings.Repeat("x", 70_000) + `"}`) },
	} {
		e := full()
		edit(e)
		whole, around := bytes.NewBufferString("before"), bytes.NewBufferString("before")
		at, err := e.AppendAroundPayload(around)
		if err := errors.Join(err, e.Append(whole)); err != nil {
			t.Fatal(err)
		}
		b := around.Bytes()
		if got := string(b[:at]) + string(e.Payload) + string(b[at:]); got != whole.String() {
			t.Errorf("got %x, want %x", got, whole)
		}
	}
}

// ParseEnvelope leaves its bytes to the caller, and ParseOwnEnvelope does not copy the payload.
func TestWhoOwnsTheBytes(t *testing.T) {
	for name, c := range map[string]struct {
		parse  func([]byte) (*wire.Envelope, error)
		copied bool
	}{"ParseEnvelope": {wire.ParseEnvelope, true}, "ParseOwnEnvelope": {wire.ParseOwnEnvelope, false}} {
		want, b := full(), new(bytes.Buffer)
		if err := want.Append(b); err != nil {
			t.Fatal(err)
		}
		e, err := c.parse(b.Bytes())
		if err != nil || !cmp.Equal(want, e) {
			t.Fatal(err, cmp.Diff(want, e))
		}
		clear(b.Bytes())
		if copied := bytes.Equal(e.Payload, want.Payload); copied != c.copied {
			t.Errorf("%s: the payload is copied: %v", name, copied)
		}
		if e.Payload = want.Payload; !cmp.Equal(want, e) {
			t.Errorf("%s: %s", name, cmp.Diff(want, e))
		}
	}
}

// A payload that is kept keeps at most 1 KiB of what a peer put beside it.
func TestPayloadKeepsLittleBeside(t *testing.T) {
	for beside, copied := range map[int]bool{1 << 10: false, 1<<10 + 1: true, 64 << 10: true} {
		b := bytes.NewBuffer(encode(t, full()))
		if first := &b.Bytes()[0]; *first < 0xa0 || *first >= 0xb7 {
			t.Fatalf("%#x begins no map with room for one more", *first)
		} else {
			*first++
		}
		const head = "\x64zpad\x5a" // a name, and bytes of a length in four
		pad := beside - (b.Len() - len(full().Payload)) - len(head) - 4
		b.WriteString(head)
		b.Write(binary.BigEndian.AppendUint32(nil, uint32(pad)))
		b.Write(make([]byte, pad))
		e, err := wire.ParseOwnEnvelope(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		clear(b.Bytes())
		if got := bytes.Equal(e.Payload, full().Payload); got != copied {
			t.Errorf("%d bytes beside it: the payload is a copy: %t, want %t", beside, got, copied)
		}
	}
}

func TestAppendRefusesWhatIsNoText(t *testing.T) {
	e := full()
	e.Thread = "\xff"
	var b bytes.Buffer
	if err := e.Append(&b); err == nil || b.Len() > 0 {
		t.Errorf("%v, and %x was written", err, b.Bytes())
	}
}

func TestCheckNamesTheField(t *testing.T) {
	for field, spoil := range map[string]func(*wire.Envelope){
		"v":      func(e *wire.Envelope) { e.V = 2 },
		"id":     func(e *wire.Envelope) { e.ID = wire.MessageID{} },
		"from":   func(e *wire.Envelope) { e.From = identity.ID{} },
		"to":     func(e *wire.Envelope) { e.To = identity.ID{} },
		"kind":   func(e *wire.Envelope) { e.Kind = "" },
		"ref":    func(e *wire.Envelope) { e.Ref = new(wire.MessageID) },
		"trace":  func(e *wire.Envelope) { e.Trace = strings.Repeat("a", wire.MaxTrace+1) },
		"agent":  func(e *wire.Envelope) { e.Agent = strings.Repeat("a", wire.MaxLabel+1) },
		"thread": func(e *wire.Envelope) { e.Thread = "\xff" },

		"from_agent": func(e *wire.Envelope) { e.FromAgent = strings.Repeat("a", wire.MaxLabel+1) },
	} {
		e := full()
		spoil(e)
		b, err := wire.MarshalCBOR(e)
		if err != nil {
			t.Fatal(err)
		}
		for how, err := range map[string]error{"check": e.Check(), "parse": parseError(b)} {
			fe, ok := errors.AsType[*wire.FormatError](err)
			if !ok || fe.Field != field {
				t.Errorf("%s: %s: %v", field, how, err)
			}
		}
	}
}

func parseError(b []byte) error {
	_, err := wire.ParseEnvelope(b)
	return err
}

func TestPayloadDepth(t *testing.T) {
	nested := func(levels int) string {
		return strings.Repeat(`{"a":`, levels-1) + "{}" + strings.Repeat("}", levels-1)
	}
	for name, c := range map[string]struct {
		payload string
		ok      bool
	}{
		"at the limit":               {nested(wire.MaxDepth), true},
		"over it":                    {nested(wire.MaxDepth + 1), false},
		"wide":                       {`{"a":[` + strings.Repeat("[],", 500) + `{}]}`, true},
		"brackets in text":           {`{"a":"` + strings.Repeat("[", 500) + `"}`, true},
		"brackets after a quote":     {`{"a":"\"` + strings.Repeat("[", 500) + `"}`, true},
		"deep after a backslash":     {`{"b":"\\","a":` + nested(wire.MaxDepth) + `}`, false},
		"deep between closed arrays": {`{"b":[[],[]],"a":` + nested(wire.MaxDepth-1) + `}`, true},
	} {
		var p wire.Payload
		if err := json.Unmarshal([]byte(c.payload), &p); (err == nil) != c.ok {
			t.Errorf("%s: from JSON: %v", name, err)
		}
		if err := wire.Payload(c.payload).CheckShape(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPayloadIsAnObject(t *testing.T) {
	for _, text := range []string{`[]`, `"{}"`, `1`, `true`} {
		var p wire.Payload
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s was taken from JSON", text)
		}
		if wire.Payload(text).CheckShape() == nil {
			t.Errorf("%s was taken", text)
		}
	}
	for _, text := range []string{`null`, `{}`} {
		var p wire.Payload
		if err := json.Unmarshal([]byte(text), &p); err != nil || string(p.Object()) != "{}" {
			t.Errorf("%s: %q, %v", text, p, err)
		}
	}
}

func FuzzParseEnvelope(f *testing.F) {
	f.Add(encode(f, minimal()))
	f.Add(encode(f, full()))
	f.Add([]byte("\xa1aa\xf6"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := wire.ParseEnvelope(b)
		if err != nil {
			if _, ok := errors.AsType[*wire.FormatError](err); !ok {
				t.Fatalf("no FormatError: %v", err)
			}
			return
		}
		again := encode(t, e)
		if len(again) > len(b) {
			t.Errorf("%d bytes became %d", len(b), len(again))
		}
		e2, err := wire.ParseEnvelope(again)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, e2); d != "" {
			t.Error(d)
		}
	})
}

func FuzzEnvelopeJSON(f *testing.F) {
	for _, e := range []*wire.Envelope{minimal(), full()} {
		text, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e := new(wire.Envelope)
		if json.Unmarshal(text, e) != nil || e.Check() != nil {
			return
		}
		again, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		e2 := new(wire.Envelope)
		if err := json.Unmarshal(again, e2); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		byHand := encode(t, e2)
		if byTags, err := wire.MarshalCBOR(e2); err != nil || !bytes.Equal(byTags, byHand) {
			t.Fatalf("%v: by its tags %x is %x", err, byHand, byTags)
		}
		over, err := wire.ParseEnvelope(byHand)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if d := cmp.Diff(e2, over); d != "" {
			t.Error(d)
		}
	})
}

func FuzzPayload(f *testing.F) {
	f.Add([]byte(full().Payload))
	f.Add([]byte(`{"a":"\\\"[{","b":[{}]}`))
	f.Add([]byte(strings.Repeat(`{"a":[`, 33) + strings.Repeat(`]}`, 33)))
	f.Fuzz(func(t *testing.T, text []byte) {
		shape := wire.Payload(text).CheckShape()
		if len(text) == 0 || !jsontext.Value(text).IsValid() {
			return
		}
		// What the JSON library sees as object and depth is what the quick look saw.
		deepest, dec := 0, jsontext.NewDecoder(bytes.NewReader(text))
		for {
			if _, err := dec.ReadToken(); err != nil {
				break
			}
			deepest = max(deepest, dec.StackDepth())
		}
		ok := jsontext.Value(text).Kind() == '{' && deepest <= wire.MaxDepth
		if (shape == nil) != ok {
			t.Fatalf("depth %d: %v", deepest, shape)
		}
		var p wire.Payload
		if err := json.Unmarshal(text, &p); (err == nil) != (ok || jsontext.Value(text).Kind() == 'n') {
			t.Fatalf("depth %d: from JSON: %v", deepest, err)
		}
		if ok && string(p) != strings.Trim(string(text), " \t\r\n") {
			t.Fatalf("%q became %q", text, p)
		}
	})
}
