package main

import (
	"slices"
	"testing"
)

func TestAxis(t *testing.T) {
	for _, c := range []struct {
		name    string
		figures []figure
		ticks   []string
	}{
		{"begins at 0", []figure{{values: []float64{603, 813}}, {values: []float64{95}}}, []string{"0", "250", "500", "750", "1000"}},
		{"holds the target", []figure{{values: []float64{20}, target: 25, high: true}}, []string{"0", "10", "20", "30"}},
		{"small steps", []figure{{values: []float64{1.2, 4.5}}}, []string{"0", "2", "4", "6"}},
		{"broken steps", []figure{{values: []float64{0.73}}}, []string{"0.0", "0.2", "0.4", "0.6", "0.8"}},
		{"steps of a quarter", []figure{{values: []float64{0.9}}}, []string{"0.00", "0.25", "0.50", "0.75", "1.00"}},
		{"below 0", []figure{{values: []float64{-3, 8}}}, []string{"−5", "0", "5", "10"}},
		{"nothing at all", []figure{{values: []float64{0}}}, []string{"0.00", "0.25", "0.50", "0.75", "1.00"}},
		{"a change", []figure{{values: []float64{0.94, 1.021}, target: 1.01, change: true}}, []string{"−7.5", "−5.0", "−2.5", "0.0", "+2.5"}},
	} {
		a := newAxis(c.figures)
		var ticks []string
		for _, tick := range a.listTicks() {
			ticks = append(ticks, a.formatTick(tick))
		}
		if !slices.Equal(ticks, c.ticks) {
			t.Errorf("%s: the axis has %q, want %q", c.name, ticks, c.ticks)
		}
		for _, f := range c.figures {
			for _, v := range append(f.values, f.target) {
				if p := a.place(v); (v != 0 || !a.change) && (p < 0 || p > 1) {
					t.Errorf("%s: %g lies at %g, outside of the axis", c.name, v, p)
				}
			}
		}
	}
}

func TestAxisFormats(t *testing.T) {
	plain := newAxis([]figure{{values: []float64{100}}})
	change := newAxis([]figure{{values: []float64{1.1}, change: true}})
	for _, c := range []struct{ got, want string }{
		{plain.formatValue(603.2), "603"},
		{plain.formatValue(1612), "1612"},
		{plain.formatValue(20.03), "20.0"},
		{plain.formatValue(2.431), "2.43"},
		{plain.formatValue(0.0123), "0.0123"},
		{plain.formatValue(0), "0"},
		{plain.formatValue(-1.5), "−1.50"},
		{plain.formatTarget(figure{target: 0.35, high: true}), "≥ 0.35"},
		{change.formatValue(0.9776), "−2.2 %"},
		{change.formatValue(1.021), "+2.1 %"},
		{change.formatValue(0.9998), "0.0 %"},
		{change.formatTarget(figure{target: 1.01}), "≤ +1 %"},
		{change.formatTarget(figure{target: 1.02}), "≤ +2 %"},
		{change.formatTarget(figure{target: 0.97, high: true}), "≥ −3 %"},
	} {
		if c.got != c.want {
			t.Errorf("formatted as %q, want %q", c.got, c.want)
		}
	}
}
