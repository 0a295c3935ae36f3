package kinds_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestLearn(t *testing.T) {
	for name, c := range map[string]struct {
		kind, payload string
		want          kinds.Facts
	}{
		"query":       {kinds.KindQuery, `{"question":"why","domain":"code.\u0072eview","deadline_ms":1500}`, kinds.Facts{Domain: "code.review", Deadline: 1500 * time.Millisecond}},
		"bare query":  {kinds.KindQuery, `{"question":"why","domain":null,"deadline_ms":null}`, kinds.Facts{}},
		"delegate":    {kinds.KindDelegate, `{"deadline_ms":2592000000,"task":"t","domain":"ops","context":{"domain":"deep"}}`, kinds.Facts{Domain: "ops", Deadline: kinds.MaxTaskDeadline}},
		"notify":      {kinds.KindNotify, `{"topic":"build.done","domain":"unread","data":{"topic":"deep"}}`, kinds.Facts{Topic: "build.done"}},
		"escape name": {kinds.KindNotify, `{"\u0074opic":"build.done"}`, kinds.Facts{Topic: "build.done"}},
		"nothing":     {kinds.KindPing, ``, kinds.Facts{}},
	} {
		e := envelope(c.kind, wire.Payload(c.payload))
		got, err := kinds.Learn(e)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(c.want, *got, cmpopts.IgnoreUnexported(kinds.Facts{})); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		again := *e
		if known, err := kinds.Learn(&again); err != nil || known != got {
			t.Errorf("%s: a copy of the envelope was read again: %v", name, err)
		}
	}
}

// What was learned of one payload vouches for no other one, nor for another kind.
func TestFactsFitOnePayload(t *testing.T) {
	valid := wire.Payload(`{"topic":"a","question":"b"}`)
	for name, change := range map[string]func(*wire.Envelope){
		"none":        func(e *wire.Envelope) { e.Payload = nil },
		"a longer":    func(e *wire.Envelope) { e.Payload = append(bytes.Clone(valid), "x"...) },
		"a shorter":   func(e *wire.Envelope) { e.Payload = e.Payload[:5] },
		"as long":     func(e *wire.Envelope) { e.Payload = wire.Payload(`{"topic":123,"question":"b"}`) },
		"kind":        func(e *wire.Envelope) { e.Kind = kinds.KindDelegate },
		"made by me":  func(e *wire.Envelope) { e.Payload, e.Facts = wire.Payload(`{}`), new(kinds.Facts) },
		"of the type": func(e *wire.Envelope) { e.Payload, e.Facts = wire.Payload(`{}`), kinds.Facts{} },
	} {
		e := envelope(kinds.KindNotify, valid)
		if _, err := kinds.Learn(e); err != nil {
			t.Fatal(err)
		}
		change(e)
		if kinds.Check(e) == nil {
			t.Errorf("%s: Check let it pass", name)
		}
		if _, err := kinds.Learn(e); err == nil {
			t.Errorf("%s: Learn let it pass", name)
		}
	}
}
