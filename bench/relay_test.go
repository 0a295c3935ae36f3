package main

import (
	"io"
	"math"
	"testing"
	"time"
)

// Calls go over the relay and fail there, and daemons that rest keep their connections to it.
func TestRelay(t *testing.T) {
	all := measureForTest(t, acpdVariant, func(f *fleet) ([]figure, error) {
		return measureRelayCalls(f, 1, 1, 20*time.Millisecond, 20*time.Millisecond, io.Discard)
	})
	all = append(all, measureForTest(t, acpdVariant, func(f *fleet) ([]figure, error) {
		return measureRelayMemory(f, 1, time.Second, io.Discard)
	})...)
	for _, got := range all {
		// Differences may be of any sign.
		if len(got.values) == 0 || got.values[0] <= 0 && got.target == 0 {
			t.Errorf("%s: implausible: %v", got.what, got.values)
		}
	}
}

// A checkout is compared with itself.
func TestAgainst(t *testing.T) {
	other, bounded := newBeforeVariant(".."), 0
	for _, measure := range []func(*fleet) ([]figure, error){
		func(f *fleet) ([]figure, error) {
			return measureAgainst(f, other, 2, 2, 20*time.Millisecond, io.Discard)
		},
		func(f *fleet) ([]figure, error) { return measureMemoryAgainst(f, other, 1, time.Second, io.Discard) },
	} {
		for _, got := range measureForTest(t, acpdVariant, measure) {
			switch {
			case len(got.values) == 0:
				t.Errorf("%s: not measured", got.what)
			case got.unit == "times" && !(got.values[0] > 0 && got.values[0] < math.Inf(1)): // a busy machine makes any other
				t.Errorf("%s: no quotient: %v", got.what, got.values)
			case got.unit == "MB" && got.target == againstMemory:
				bounded++
			}
		}
	}
	if bounded != 1 {
		t.Errorf("%d bounds of what memory is more, and not one", bounded)
	}
}

// measureForTest has a fleet of the variant measured.
func measureForTest(t *testing.T, v variant, measure func(*fleet) ([]figure, error)) []figure {
	t.Helper()
	bin := t.TempDir()
	if err := buildPrograms(t.Context(), bin, v); err != nil {
		t.Fatal(err)
	}
	f, err := newFleet(t.Context(), v, bin)
	if err != nil {
		t.Fatal(err)
	}
	figures, err := measure(f)
	if err := f.stopAll(); err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return figures
}
