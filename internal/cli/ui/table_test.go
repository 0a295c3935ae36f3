package ui

import (
	"strings"
	"testing"
)

func printTable(width int, head []string, rows [][]string) string {
	var out strings.Builder
	t := Terminal{Out: &out, OutTTY: true}
	t.printTable(head, rows, width)
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
		"日本/語語語語語語語語語語…  delegate  日本語のテキス…\n" +
		"desk                        query     short\n"
	if got := printTable(54, head, rows()); got != want {
		t.Errorf("54 columns:\n%s\nwant\n%s", got, want)
	}
	for width := 28; width < 160; width++ {
		for line := range strings.Lines(printTable(width, head, rows())) {
			if n := CountCells(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("%d columns: %d cells: %q", width, n, line)
			}
		}
	}
	for width := 0; width < 28; width++ { // too narrow: names and texts stay to be guessed
		if got := printTable(width, head, rows()); !strings.Contains(got, "here/pl…") || !strings.Contains(got, "Which b…") {
			t.Errorf("%d columns:\n%s", width, got)
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
