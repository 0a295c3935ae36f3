package main

import (
	"slices"
	"testing"
)

func TestAxis(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		ticks  []string
	}{
		{"large", []float64{603, 813}, []string{"0", "250", "500", "750", "1000"}},
		{"small steps", []float64{1.2, 4.5}, []string{"0", "2", "4", "6"}},
		{"broken steps", []float64{0.73}, []string{"0.0", "0.2", "0.4", "0.6", "0.8"}},
		{"steps of a quarter", []float64{0.9}, []string{"0.00", "0.25", "0.50", "0.75", "1.00"}},
		{"nothing at all", []float64{0}, []string{"0.00", "0.25", "0.50", "0.75", "1.00"}},
	} {
		a := newAxis([]figure{{values: c.values}})
		var ticks []string
		for _, tick := range a.listTicks() {
			ticks = append(ticks, a.formatTick(tick))
		}
		if !slices.Equal(ticks, c.ticks) {
			t.Errorf("%s: the axis has %q, want %q", c.name, ticks, c.ticks)
		}
		if highest := a.place(slices.Max(c.values)); highest > 1 {
			t.Errorf("%s: the highest value is at %g, outside of the axis", c.name, highest)
		}
	}
}
