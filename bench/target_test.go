package main

import "testing"

func TestTargetFor(t *testing.T) {
	acpd, node := pair{"acpd", "floor"}, pair{"node", "quic"}
	for _, tt := range []struct {
		pair pair
		cell cell
		want string // empty: no target
	}{
		{acpd, cell{200, 1}, "p50 ≤ 1.40"},
		{acpd, cell{1024, 1}, "p50 ≤ 1.40"},
		{acpd, cell{1024, 16}, "requests/s ≥ 0.65"},
		{acpd, cell{200, 64}, "requests/s ≥ 0.65"},
		{acpd, cell{16384, 1}, ""},
		{acpd, cell{61440, 1}, "p50 ≤ 2.00"},
		{acpd, cell{61440, 64}, "p50 ≤ 2.00"},
		{node, cell{16384, 1}, "p50 ≤ 1.15"},
		{node, cell{200, 16}, ""},
		{pair{"floor", "quic"}, cell{200, 1}, ""},
	} {
		got, ok := findTarget(tt.pair, tt.cell)
		if ok != (tt.want != "") || ok && got.String() != tt.want {
			t.Errorf("findTarget(%v, %v) = %v, %v, want %q", tt.pair, tt.cell, got, ok, tt.want)
		}
	}
}

func TestJudge(t *testing.T) {
	exactly := func(x float64) spread { return spread{x, x, x} }
	wide := func(x float64) spread { return spread{x * 0.9, x, x * 1.1} }
	for _, tt := range []struct {
		name           string
		target         target
		p50, rate, cpu spread
		want           string
	}{
		{"p50 within tolerance", target{p50: 1.4}, exactly(1.469), exactly(1), exactly(9), "met"},
		{"p50 beyond it", target{p50: 1.4}, exactly(1.471), exactly(1), exactly(1), "missed"},
		{"p50 scatters, CPU low", target{p50: 1.4}, wide(2), exactly(1), exactly(1.4), "met (by CPU)"},
		{"p50 scatters, CPU high", target{p50: 1.4}, wide(1), exactly(1), exactly(1.5), "missed (by CPU)"},
		{"rate within tolerance", target{rate: 0.65}, exactly(9), exactly(0.62), exactly(9), "met"},
		{"rate beyond it", target{rate: 0.65}, exactly(1), exactly(0.61), exactly(1), "missed"},
		{"rate scatters, CPU low", target{rate: 0.5}, exactly(1), wide(0.1), exactly(2), "met (by CPU)"},
		{"rate scatters, CPU high", target{rate: 0.5}, exactly(1), wide(1), exactly(2.2), "missed (by CPU)"},
	} {
		if got := tt.target.judgeRatios(tt.p50, tt.rate, tt.cpu).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
