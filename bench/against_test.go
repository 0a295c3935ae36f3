package main

import (
	"math"
	"testing"
	"time"
)

// TestCompareRounds has fleets that are slower by a tenth the later they start, and this checkout's by
// a twentieth besides. Over four rounds only the latter may show.
func TestCompareRounds(t *testing.T) {
	const later, slower = 1.1, 1.05
	for _, r := range againstRatios {
		var equal float64
		for round := range 4 {
			all := make([]turn, 4)
			for i := range all {
				took := math.Pow(later, float64(i))
				if this := (i == 1 || i == 2) == (round%2 == 0); this {
					took *= slower
				}
				whole := time.Duration(took * float64(time.Second))
				all[i] = turn{result{requests: 1000, elapsed: whole, p50: whole / 1000}, whole}
			}
			mean, others := r.compare(all, round)
			if math.Abs(mean-slower) > 1e-6 {
				t.Errorf("%s, round %d: %g, want %g", r.what, round, mean, slower)
			}
			equal += math.Log(others)
		}
		if math.Abs(equal) > 1e-6 {
			t.Errorf("%s: the other's two differ by %g over four rounds, and are equal", r.what, equal)
		}
	}
}
