package ui

import (
	"fmt"
	"strings"
	"testing"
)

func TestNamesAreCutInTheMiddle(t *testing.T) {
	var n Names
	for _, c := range []struct {
		text  string
		cells int
		want  string
	}{
		{"desk", 16, "desk"},
		{"desk/reviewer", 13, "desk/reviewer"},
		{"desk/reviewer", 10, "desk/re…er"},
		{"build-machine-frankfurt-1", 16, "build-ma…kfurt-1"},
		{"build-machine-frankfurt-2", 16, "build-ma…kfurt-2"},
		{"build-machine-frankfurt-2/reviewer", 16, "buil…t-2/rev…wer"},
		{"build-machine-frankfurt-2/x", 16, "build-m…furt-2/x"},
		{"build-machine-stuttgart-kfurt-1", 16, "build-m…-kfurt-1"}, // which would look as the first one
		{"build-machine-frankfurt-1", 16, "build-ma…kfurt-1"},
		{"desk", 1, "…"},
		{"desk", 0, ""},
	} {
		if got := n.Cut(c.text, c.cells); got != c.want || CountCells(got) > c.cells {
			t.Errorf("%q in %d cells: %q, want %q", c.text, c.cells, got, c.want)
		}
	}
}

// However a peer is called, and whatever its agents are called, what is shown of its name is shown of no other's.
func TestNamesStayApart(t *testing.T) {
	const honest = "build-machine-frankfurt-1"
	names := []string{honest, "build-machine-frankfurt-2"}
	for i := range len(honest) {
		names = append(names, honest[:i]+"x"+honest[i:])
	}
	for i := range 30 { // which differ where nothing of them is shown
		names = append(names, fmt.Sprintf("build-machine-%03d-frankfurt-1", i))
	}
	agents := []string{"", "/x", "/frankfurt-1", "/" + honest, "/" + strings.Repeat("long", 9)}
	for _, cells := range []int{10, 11, 16, 24, 29} {
		var n Names
		of := make(map[string]string)
		for _, name := range names {
			for _, agent := range agents {
				got := n.Cut(name+agent, cells)
				if CountCells(got) > cells {
					t.Fatalf("%q in %d cells: %q", name+agent, cells, got)
				}
				shown, _, _ := strings.Cut(got, "/")
				if agent != "" && !strings.Contains(got, "/") {
					shown, _ = strings.CutSuffix(got, "…") // there was no room for the agent's slash
				}
				if other := of[shown]; other != "" && other != name {
					t.Fatalf("%d cells: %q and %q are both shown as %q", cells, other, name, shown)
				}
				of[shown] = name
			}
		}
	}
}

// The forms that are known are bounded, and a name that comes again and again keeps its form while others are
// forgotten: also the form that told it from a name which is forgotten by now.
func TestNamesAreForgotten(t *testing.T) {
	var n Names
	first := n.Cut("build-machine-frankfurt-1", 16)
	talking := n.Cut("build-machine-stuttgart-kfurt-1", 16)
	if first == talking {
		t.Fatalf("both are %q", first)
	}
	for i := range 3 * maxKnown {
		n.Cut(fmt.Sprint("build-", i), 16)
		if known := len(n.recent.formOf) + len(n.older.formOf); known > maxKnown || len(n.recent.nameOf)+len(n.older.nameOf) > maxKnown {
			t.Fatalf("%d forms", known)
		}
		if i%(maxKnown/4) == 0 {
			if got := n.Cut("build-machine-stuttgart-kfurt-1", 16); got != talking {
				t.Fatalf("after %d others, what was %q is %q", i, talking, got)
			}
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("build-machine-frankfurt-1/reviewer", "build-machine-frankfurt-2", 16)
	f.Add("日本語の名前が長い/e\u0301", "\u0301\u0301\xff", 7)
	f.Fuzz(func(t *testing.T, first, second string, cells int) {
		if cells < 0 || cells > 200 {
			return
		}
		var n Names
		a, b := n.Cut(first, cells), n.Cut(second, cells)
		if CountCells(a) > cells || CountCells(b) > cells {
			t.Errorf("%q and %q in %d cells: %q and %q", first, second, cells, a, b)
		}
		if again := n.Cut(first, cells); again != a {
			t.Errorf("%q is first %q, then %q", first, a, again)
		}
		if !strings.ContainsAny(first+second, "/…~") && cells >= leastName && first != second && a == b {
			t.Errorf("%q and %q in %d cells are both %q", first, second, cells, a)
		}
	})
}
