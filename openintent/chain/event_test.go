package chain

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestHashIsOverTheCanonicalEvent(t *testing.T) {
	ev := Event{ID: "evt_1", IntentID: "intent_1", Type: "comment", Actor: "planner", Payload: jsontext.Value(`{"b":1.0,"a":"\u00e9"}`), CreatedAt: 1e15, Sequence: 1}
	one, err := ev.ComputeHash()
	if err != nil {
		t.Fatal(err)
	}
	ev.Payload, ev.Hash = jsontext.Value(`{ "a": "é", "b": 1 }`), one
	two, err := ev.ComputeHash()
	if one != two || err != nil {
		t.Errorf("%s, %s, %v", one, two, err)
	}
	// Computed by Python's hashlib over the same text.
	const want = "sha256:X9crLc1jlvIrVFC256TiC06YfCyXvoXAlryKG46qLPw"
	if one != want {
		t.Errorf("%s, want %s", one, want)
	}
}
