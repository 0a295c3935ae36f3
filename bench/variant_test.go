package main

import (
	"io"
	"os"
	"slices"
	"testing"
	"time"
)

// The test binary plays the roles of the variants too.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "role" {
		os.Exit(runRole(os.Args[2], os.Args[3], os.Args[4:]))
	}
	os.Exit(m.Run())
}

// Every variant carries every kind of load in real processes, which end in good order.
func TestVariants(t *testing.T) {
	p := plan{
		variants: append(slices.Clone(variants), newBeforeVariant("..")),
		cells:    []cell{{200, 1}, {61440, 64}},
		rounds:   2,
		window:   20 * time.Millisecond,
	}
	m, err := p.runPlan(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range p.variants {
		for _, c := range p.cells {
			samples := m.samples[key{v.name, c}]
			if len(samples) != p.rounds {
				t.Errorf("%s %v: %d samples, want %d", v.name, c, len(samples), p.rounds)
			}
			for _, s := range samples {
				if s.p50 <= 0 || s.p99 < s.p50 || s.rate <= 0 || s.cpu <= 0 {
					t.Errorf("%s %v: implausible sample %+v", v.name, c, s)
				}
			}
		}
	}
}

func TestStartFleetReportsFailure(t *testing.T) {
	broken := variant{name: "quic", start: func(f *fleet) error {
		_, err := f.spawnRole("nobody")
		return err
	}}
	if _, err := startFleet(t.Context(), broken, ""); err == nil {
		t.Error("startFleet started a role that does not exist")
	}
}
