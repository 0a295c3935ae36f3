package main

import (
	"slices"
	"testing"
)

func TestSummarizeValues(t *testing.T) {
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
			t.Errorf("summarizeValues(%v) = %v, want %v", given, got, tt.want)
		}
		if !slices.Equal(tt.values, given) {
			t.Errorf("summarizeValues(%v) changed its argument to %v", given, tt.values)
		}
	}
}
