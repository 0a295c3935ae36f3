package ui

import (
	"strings"
	"testing"
)

// Wide characters take two cells; only the last column is as long as it is; what stands behind it is below the row.
func TestTableIsAligned(t *testing.T) {
	var out strings.Builder
	terminal := Terminal{Out: &out, OutTTY: true}
	long := strings.Repeat("x", 40) + "-in-the-middle-" + strings.Repeat("y", 40)
	terminal.PrintTable([]string{"NAME", "STATE"}, [][]string{{"日本語", "connected"}, {"desk", "pending", "start it there"}, {"shelf", long}})
	if want := "NAME    STATE\n日本語  connected\ndesk    pending\n    start it there\nshelf   " + long + "\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	out.Reset()
	terminal.PrintTable([]string{"NAME", "STATE"}, [][]string{{long, "connected"}})
	if row := strings.Split(out.String(), "\n")[1]; row != strings.Repeat("x", 24)+"…"+strings.Repeat("y", 23)+"  connected" {
		t.Errorf("%q", row)
	}
	out.Reset()
	terminal.OutTTY = false
	terminal.PrintTable([]string{"NAME", "STATE"}, [][]string{{"desk", "pending", "start it there"}})
	if out.String() != "desk\tpending\tstart it there\n" {
		t.Errorf("%q", out.String())
	}
}
