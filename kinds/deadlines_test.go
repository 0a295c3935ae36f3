package kinds

import (
	"testing"
	"time"

	"github.com/acpd/acpd/wire"
)

// A deadline is shortened in place, or written where there is none, and nothing else changes.
func TestLimitDeadline(t *testing.T) {
	for p, want := range map[string]string{
		`{"question":"?","deadline_ms":240000,"n":1.50}`: `{"question":"?","deadline_ms":900,"n":1.50}`,
		`{ "deadline\u005fms" : 2.4e5 , "question":"?"}`: `{ "deadline\u005fms" : 900 , "question":"?"}`,
		`{"question":"?","deadline_ms":900}`:             `{"question":"?","deadline_ms":900}`,
		`{"question":"?","deadline_ms":20}`:              `{"question":"?","deadline_ms":20}`,
		`{"question":"?"}`:                               `{"deadline_ms":900,"question":"?"}`,
		`{"question":"?","deadline_ms":0}`:               `{"question":"?","deadline_ms":900}`,
		`{"question":"?","deadline_ms":null}`:            `{"question":"?","deadline_ms":900}`,
		`{"question":"?","of":{"deadline_ms":240000}}`:   `{"deadline_ms":900,"question":"?","of":{"deadline_ms":240000}}`,
		`{"question":"?","deadline_ms":"soon"}`:          `{"question":"?","deadline_ms":"soon"}`,
		`{"question":"?","deadline_ms":-1}`:              `{"question":"?","deadline_ms":-1}`,
		`{"deadline_ms":240000,"deadline_ms":1}`:         `{"deadline_ms":240000,"deadline_ms":1}`,
		`{}`:                                             `{}`, ``: ``, `[]`: `[]`, `no`: `no`, `{"a":}`: `{"a":}`,
	} {
		if got := LimitDeadline(wire.Payload(p), 900*time.Millisecond); string(got) != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
	}
	if got := LimitDeadline(wire.Payload(`{"question":"?"}`), -time.Second); string(got) != `{"deadline_ms":1,"question":"?"}` {
		t.Errorf("%s", got)
	}
	if p := `{"question":"?"}`; string(LimitDeadline(wire.Payload(p), time.Minute)) != p {
		t.Error("the default is lengthened")
	}
}
