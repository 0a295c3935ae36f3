package ui

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func printTable(width int, head []string, rows [][]string) string {
	var out strings.Builder
	t := Terminal{Out: &out, OutTTY: true}
	t.printTable(head, rows, tableFit{width: width})
	return out.String()
}

// A table of texts has the width of its terminal: the text is cut first, then what is widest.
func TestTableIsCut(t *testing.T) {
	head := []string{"WHO", "KIND", "TEXT"}
	rows := func() [][]string {
		return [][]string{
			{"here/planner", "query", "Which branch is deployed on the machines of the team?"},
			{"日本/" + strings.Repeat("語", 20), "delegate", "日本語のテキストが長い場合"},
			{"desk", "query", "short"},
		}
	}
	want := "" +
		"WHO                         KIND      TEXT\n" +
		"here/planner                query     Which branch is…\n" +
		"日本/語語語語語…語語語語語  delegate  日本語のテキス…\n" +
		"desk                        query     short\n"
	if got := printTable(54, head, rows()); got != want {
		t.Errorf("54 columns:\n%s\nwant\n%s", got, want)
	}
	for width := 1; width < 160; width++ {
		for line := range strings.Lines(printTable(width, head, rows())) {
			if n := CountCells(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("%d columns: %d cells: %q", width, n, line)
			}
		}
	}
}

// Two names that are cut do not look the same, in whichever columns they stand.
func TestTableTellsNamesApart(t *testing.T) {
	cut := regexp.MustCompile(`[a-z0-9-]*…[a-z0-9~-]*/`)
	for width := 30; width < 70; width++ {
		shown := cut.FindAllString(printTable(width, []string{"WHO", "WAITS FOR", "TEXT"}, [][]string{
			{"build-machine-frankfurt-1/x", "here/planner", "Which branch is deployed?"},
			{"here/planner", "build-machine-frankfurt-2/x", "?"},
			{"build-machine-stuttgart-kfurt-1/x", "here/planner", "?"},
		}), -1)
		if slices.Sort(shown); len(shown) != 3 || len(slices.Compact(shown)) != 3 {
			t.Errorf("%d columns: %q", width, shown)
		}
	}
}

// What is no name is cut at its end, and the place in a tree goes before the name.
func TestTableCutsWordsAtTheirEnd(t *testing.T) {
	rows := func() [][]string {
		return [][]string{{"Nov 27 12:00:00 UTC", "  └ build-machine-frankfurt-1/planner", "Which branch is deployed?"}, {"12m ago", "a program here", "?"}}
	}
	for width, want := range map[int]string{
		60: "SINCE                WHO                    TEXT\nNov 27 12:00:00 UTC    └ buil…rt-1/planner  Which branch is…\n12m ago              a program here         ?\n",
		40: "SINCE       WHO           TEXT\nNov 27 12…  └ bu…-1/p…er  Which branch …\n12m ago     a program h…  ?\n",
	} {
		if got := printTable(width, []string{"SINCE", "WHO", "TEXT"}, rows()); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// Wide characters take two cells also where nothing is cut.
func TestTableIsAligned(t *testing.T) {
	var out strings.Builder
	terminal := Terminal{Out: &out, OutTTY: true}
	terminal.PrintTable([]string{"NAME", "STATE"}, [][]string{{"日本語", "connected"}, {"desk", "pending"}})
	if want := "NAME    STATE\n日本語  connected\ndesk    pending\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
