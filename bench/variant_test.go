package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The test binary plays the roles too.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == roleWord {
		os.Exit(runRole(os.Args[2], os.Args[3], os.Args[4:]))
	}
	os.Exit(m.Run())
}

const testWindow = 20 * time.Millisecond

// checkFigures fails if a figure lacks a value, or has one that cannot be.
func checkFigures(t *testing.T, figures []figure, want int) {
	t.Helper()
	if len(figures) != want {
		t.Errorf("%d figures, want %d", len(figures), want)
	}
	for _, f := range figures {
		if len(f.values) != 1 || f.values[0] <= 0 {
			t.Errorf("%s, %s: implausible: %v", f.group, f.what, f.values)
		}
	}
}

// Every variant carries every load in real processes, which end in good order.
func TestBeside(t *testing.T) {
	figures, err := measureBeside(t.Context(), 1, testWindow)
	if err != nil {
		t.Fatal(err)
	}
	checkFigures(t, figures, len(besideMeasures)*len(variants))
}

// Every quantity grows.
func TestGrowth(t *testing.T) {
	small := slices.Clone(quantities)
	for i := range small {
		q := &small[i]
		if q.bytes {
			q.steps = q.steps[len(q.steps)-1:]
		} else {
			q.steps = []int{2 * holders}
		}
	}
	figures, err := measureGrowth(t.Context(), small, 1, testWindow, 0)
	if err != nil {
		t.Fatal(err)
	}
	checkFigures(t, figures, 2*len(quantities))
}

// A checkout is compared with itself.
func TestAgainst(t *testing.T) {
	var out strings.Builder
	other, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if err := compareCheckouts(t.Context(), other, 1, testWindow, &out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "Inf") || strings.Contains(out.String(), "NaN") {
		t.Errorf("a load was not measured:\n%s", &out)
	}
	for _, c := range againstCells {
		if !strings.Contains(out.String(), "| "+c.String()+" |") {
			t.Errorf("%s is missing:\n%s", c, &out)
		}
	}
}

func TestStartFleetReportsFailure(t *testing.T) {
	broken := variant{name: acpdVariant.name, start: func(f *fleet) error {
		_, err := f.spawnRole("nobody")
		return err
	}}
	if _, err := startFleet(t.Context(), broken, ""); err == nil {
		t.Error("startFleet started a role that does not exist")
	}
}

func TestRunCommandRefuses(t *testing.T) {
	for _, line := range []string{"", "idle", "against", "beside -rounds 0", "beside all"} {
		if err := runCommand(t.Context(), strings.Fields(line)); err == nil {
			t.Errorf("bench %s ran", line)
		}
	}
}
