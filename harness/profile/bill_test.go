package profile

import (
	"testing"

	"github.com/acpd/acpd/client"
)

// What a run has cost is known if the program names its tokens, and its cost where that is bounded.
func TestNoteCost(t *testing.T) {
	for _, test := range []struct {
		read  reading
		limit float64
		want  bill
	}{
		{reading{}, 0, bill{}},
		{reading{cost: 0.5, hasCost: true}, 1, bill{}},
		{reading{tokens: 7, hasTokens: true}, 1, bill{}},
		{reading{tokens: 7, hasTokens: true}, 0, bill{known: true, spent: client.SettleParams{Tokens: 5}}},
		{reading{tokens: 7, hasTokens: true, cost: 0.5, hasCost: true}, 1, bill{known: true, spent: client.SettleParams{Tokens: 5, Cost: 0.5}}},
	} {
		b := bill{known: true, spent: client.SettleParams{NotBegun: true}}
		b.noteBegun()
		if b != (bill{}) {
			t.Fatalf("a run that has begun: %+v", b)
		}
		if b.noteCost(&test.read, 5, &Limits{Cost: test.limit}); b != test.want {
			t.Errorf("%+v: %+v, want %+v", test.read, b, test.want)
		}
	}
}
