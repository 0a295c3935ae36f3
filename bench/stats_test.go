package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestSpreadOf(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{7}, spread{7, 7, 7}},
		{[]float64{3, 1}, spread{1.5, 2, 2.5}},
		{[]float64{5, 1, 4, 2, 3}, spread{2, 3, 4}},
		{[]float64{9, 1, 8, 2, 7, 3, 6, 4, 5}, spread{3, 5, 7}},
		{[]float64{1, 1, 1, 1000}, spread{1, 1, 250.75}},
	} {
		given := slices.Clone(tt.values)
		if got := summarizeValues(tt.values); got != tt.want {
			t.Errorf("spreadOf(%v) = %v, want %v", given, got, tt.want)
		}
		if !slices.Equal(tt.values, given) {
			t.Errorf("spreadOf(%v) changed its argument to %v", given, tt.values)
		}
	}
}

func TestScatter(t *testing.T) {
	if got := (spread{90, 100, 115}).relativeSpread(); math.Abs(got-0.25) > 1e-9 {
		t.Errorf("scatter = %v, want 0.25", got)
	}
}

// The ratio of two drifting series is taken round by round: what slows both leaves it alone.
func TestRatioIsPerRound(t *testing.T) {
	over := []sample{{p50: 30}, {p50: 300}, {p50: 15}}
	under := []sample{{p50: 20}, {p50: 200}, {p50: 10}}
	if got, want := metric(pickP50).summarizeRatios(over, under), (spread{1.5, 1.5, 1.5}); got != want {
		t.Errorf("ratio = %v, want %v", got, want)
	}
}

func TestResultSample(t *testing.T) {
	r := result{requests: 200, elapsed: 2 * time.Second, p50: 1500 * time.Nanosecond, p99: time.Millisecond}
	want := sample{p50: 1.5, p99: 1000, rate: 100, cpu: 50}
	if got := r.toSample(10 * time.Millisecond); got != want {
		t.Errorf("sample = %+v, want %+v", got, want)
	}
}
