package main

import (
	"math"
	"testing"
	"time"
)

// TestCompareRounds has fleets that are slower by a tenth the later they start, or the later their turn comes, or but for
// the one that is first in either; and this checkout's by a twentieth besides. Over four rounds only the
// last may show.
func TestCompareRounds(t *testing.T) {
	later := func(place int) float64 { return math.Pow(1.1, float64(place)) }
	notFirst := func(place int) float64 { return []float64{1, 1.1, 1.1, 1.1}[place] }
	none := func(int) float64 { return 1 }
	for name, c := range map[string]struct {
		start, turn func(place int) float64
		within      bool // each round is balanced by itself
	}{
		"starts later":    {later, none, true},
		"starts first":    {notFirst, none, false},
		"has turns later": {none, later, true},
		"has first turn":  {none, notFirst, false},
	} {
		for _, r := range againstRatios {
			compareRounds(t, name, r, c.start, c.turn, c.within)
		}
	}
}

func compareRounds(t *testing.T, name string, r againstRatio, start, turnOf func(place int) float64, within bool) {
	other := newBeforeVariant("elsewhere")
	const slower = 1.05
	var means, equal float64
	for round := range balancedRounds {
		order := orderStarts(other, round)
		for n := range againstTurns {
			all := make([]turn, len(order))
			for place, i := range orderTurns(len(order), n, firstTurns(round)) {
				took := start(i) * turnOf(place)
				if order[i].source == acpdVariant.source {
					took *= slower
				}
				whole := time.Duration(took * float64(time.Second))
				all[i] = turn{result{requests: 1000, elapsed: whole, p50: whole / 1000}, whole}
			}
			mean, control := r.compare(order, all, round)
			if within && math.Abs(mean-slower) > 1e-6 {
				t.Errorf("%s: %s, round %d: %g, want %g", name, r.what, round, mean, slower)
			}
			means += math.Log(mean / slower)
			equal += math.Log(control)
		}
	}
	if math.Abs(means) > 1e-5 {
		t.Errorf("%s: %s over four rounds is off by %g", name, r.what, means)
	}
	if math.Abs(equal) > 1e-5 {
		t.Errorf("%s: %s: the other's two differ by %g over four rounds, and are equal", name, r.what, equal)
	}
}
