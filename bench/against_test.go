package main

import (
	"math"
	"testing"
	"time"
)

// TestCompareRounds has fleets that are slower by a tenth the later they start, and this checkout's by
// a twentieth besides. Over four rounds only the latter may show.
func TestCompareRounds(t *testing.T) {
	other := newBeforeVariant("elsewhere")
	const later, slower = 1.1, 1.05
	for _, r := range againstRatios {
		var equal float64
		for round := range balancedRounds {
			order := orderStarts(other, round)
			all := make([]turn, len(order))
			for i := range all {
				took := math.Pow(later, float64(i))
				if order[i].name == acpdVariant.name {
					took *= slower
				}
				whole := time.Duration(took * float64(time.Second))
				all[i] = turn{result{requests: 1000, elapsed: whole, p50: whole / 1000}, whole}
			}
			mean, control := r.compare(order, all, round)
			if math.Abs(mean-slower) > 1e-6 {
				t.Errorf("%s, round %d: %g, want %g", r.what, round, mean, slower)
			}
			equal += math.Log(control)
		}
		if math.Abs(equal) > 1e-6 {
			t.Errorf("%s: the other's two differ by %g over four rounds, and are equal", r.what, equal)
		}
	}
}
