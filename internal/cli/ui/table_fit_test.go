package ui

import (
	"strings"
	"testing"
)

func printFitted(fit tableFit, head []string, rows [][]string) (out, told string) {
	var o, e strings.Builder
	t := Terminal{Out: &o, Err: &e, OutTTY: true, ErrTTY: true}
	t.printTable(head, rows, fit)
	return o.String(), e.String()
}

// Items are whole or counted, and columns are left out for them, which the person is told.
func TestTableKeepsItemsWhole(t *testing.T) {
	head := []string{"NAME", "STATE", "SEEN", "SOURCE", "ADDRESSES"}
	rows := func() [][]string {
		return [][]string{
			{"desk", "connected", "now", "worked", "192.168.178.23:7117 relay:corp [2001:db8:0:1:2:3:4:5]:7117"},
			{"build-machine-frankfurt-1", "trusted", "8m ago", "worked before", "[2001:db8:0:1:2:3:4:5]:7117"},
			{"laptop", "trusted", "-", "-", ""},
		}
	}
	spare := []string{"SEEN", "SOURCE"}
	for width, want := range map[int]string{
		130: "NAME                       STATE      SEEN    SOURCE         ADDRESSES\n" +
			"desk                       connected  now     worked         192.168.178.23:7117 relay:corp [2001:db8:0:1:2:3:4:5]:7117\n" +
			"build-machine-frankfurt-1  trusted    8m ago  worked before  [2001:db8:0:1:2:3:4:5]:7117\n" +
			"laptop                     trusted    -       -\n",
		80: "NAME               STATE      SEEN    SOURCE         ADDRESSES\n" +
			"desk               connected  now     worked         192.168.178.23:7117 +2\n" +
			"build-ma…nkfurt-1  trusted    8m ago  worked before  [2001:db8:0:1:2:3:4:5]:7117\n" +
			"laptop             trusted    -       -\n",
		70: "NAME                    STATE      SEEN    ADDRESSES\n" +
			"desk                    connected  now     192.168.178.23:7117 +2\n" +
			"build-machi…rankfurt-1  trusted    8m ago  [2001:db8:0:1:2:3:4:5]:7117\n" +
			"laptop                  trusted    -\n",
		60: "NAME                  STATE      ADDRESSES\n" +
			"desk                  connected  192.168.178.23:7117 +2\n" +
			"build-mach…ankfurt-1  trusted    [2001:db8:0:1:2:3:4:5]:7117\n" +
			"laptop                trusted\n",
		50: "NAME        STATE      ADDRESSES\n" +
			"desk        connected  192.168.178.23:7117 +2\n" +
			"build…rt-1  trusted    [2001:db8:0:1:2:3:4:5]:7117\n" +
			"laptop      trusted\n",
		45: "NAME        STATE      ADDRESSES\n" +
			"desk        connected  192.168.178.23:7117 +2\n" +
			"build…rt-1  trusted    +1\n" +
			"laptop      trusted\n",
		30: "NAME            STATE      AD…\n" +
			"desk            connected  +3\n" +
			"build-m…furt-1  trusted    +1\n" +
			"laptop          trusted\n",
	} {
		got, told := printFitted(tableFit{width: width, spare: spare, hasItems: true}, head, rows())
		if got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
		if left := !strings.Contains(got, "SOURCE"); left != strings.Contains(told, "SOURCE: --json has all\n") {
			t.Errorf("%d columns: told %q", width, told)
		}
	}
	for width := 1; width < 140; width++ {
		got, _ := printFitted(tableFit{width: width, spare: spare, hasItems: true}, head, rows())
		for line := range strings.Lines(got) {
			if n := CountCells(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns: %d cells: %q", width, n, line)
			}
		}
	}
}

// A column that could be left out is whole where it stands, also the last one, and names give way to none.
func TestTableLeavesSpareColumnsOut(t *testing.T) {
	head := []string{"NAME", "LAST", "ID", "KIND", "TITLE"}
	rows := func() [][]string {
		return [][]string{{"questions", "12:00:00", "chan_0a1b2c3d4e_01JD3M8Q2W7ZK5T9XVB4NHC6RF", "intent", "What the machines of the team run"}}
	}
	for width, want := range map[int][]string{
		120: {"NAME", "LAST", "ID", "KIND", "TITLE"},
		86:  {"NAME", "LAST", "ID", "TITLE"},
		80:  {"NAME", "LAST", "KIND", "TITLE"}, // the id has no room, and what is less wide has
		33:  {"NAME", "TITLE"},
	} {
		got, _ := printFitted(tableFit{width: width, spare: []string{"LAST", "ID", "KIND"}}, head, rows())
		first, _, _ := strings.Cut(got, "\n")
		if strings.Join(strings.Fields(first), " ") != strings.Join(want, " ") || strings.Contains(first, "ID") != strings.Contains(got, "chan_0a1b2c3d4e_01JD3M8Q2W7ZK5T9XVB4NHC6RF") {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
	for width, want := range map[int]string{60: "NAME       ID\nquestions  chan_0a1b2c3d4e_01JD3M8Q2W7ZK5T9XVB4NHC6RF\n", 50: "NAME\nquestions\n", 6: "NAME\nquest…\n"} {
		if got, _ := printFitted(tableFit{width: width, spare: []string{"ID"}}, []string{"NAME", "ID"}, [][]string{{"questions", "chan_0a1b2c3d4e_01JD3M8Q2W7ZK5T9XVB4NHC6RF"}}); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// A reason that is cut is told whole below the table, once, and no more of them than a person reads.
func TestTableTellsReasonsThatAreCut(t *testing.T) {
	const reason = "laptop: nothing listens at 192.0.2.1:7117; start its daemon"
	head := []string{"FILE", "REASON"}
	rows := [][]string{{"one.yaml", reason}, {"two.yaml", reason}, {"three.yaml", "-"}}
	if out, told := printFitted(tableFit{width: 40, tellsCut: true}, head, rows); told != reason+"\n" || strings.Contains(out, "daemon") {
		t.Errorf("%q, %q", out, told)
	}
	if out, told := printFitted(tableFit{width: 80, tellsCut: true}, head, rows); told != "" || !strings.Contains(out, reason) {
		t.Errorf("%q, %q", out, told)
	}
	rows = nil
	for i := range 30 {
		rows = append(rows, []string{"x.yaml", strings.Repeat("x", 60+i)})
	}
	if _, told := printFitted(tableFit{width: 40, tellsCut: true}, head, rows); strings.Count(told, "\n") != mostTold+1 || !strings.HasSuffix(told, "and more: --json has all\n") {
		t.Errorf("%q", told)
	}
}

func FuzzCutItems(f *testing.F) {
	f.Add("192.0.2.1:7117 relay:corp [2001:db8::1]:7117", 22)
	f.Fuzz(func(t *testing.T, line string, cells int) {
		if cells < 0 || cells > 200 || len(line) > 1000 {
			return
		}
		got := cutItems(line, cells)
		if CountCells(got) > cells {
			t.Errorf("%q in %d cells: %q", line, cells, got)
		}
		items := strings.Fields(line)
		for i, shown := range strings.Fields(got) {
			if cells >= leastItems && shown != items[i] && !strings.HasPrefix(shown, "+") && !strings.HasSuffix(shown, "…") {
				t.Errorf("%q in %d cells: %q", line, cells, got)
			}
		}
	})
}
