package ui

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

// writeAtWidth returns what write has written to a terminal of so many columns, on both streams.
func writeAtWidth(t *testing.T, columns int, write func(*Terminal)) string {
	t.Helper()
	master, slave, err := live.OpenTerminal(50, uint16(columns))
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	var seen bytes.Buffer
	read := make(chan struct{})
	go func() { // ends with the last who has the terminal
		defer close(read)
		io.Copy(&seen, master)
	}()
	write(&Terminal{Out: slave, Err: slave, OutTTY: true, ErrTTY: true})
	slave.Close()
	<-read
	return strings.ReplaceAll(seen.String(), "\r\n", "\n")
}

// No line of a table is longer than its terminal is wide, however narrow that is and whatever peers write, and names
// of peers are whole. A reason behind the last column is whole, below its row. What is told breaks between words.
func TestNothingIsWiderThanItsTerminal(t *testing.T) {
	const name1, name2 = "build-machine-frankfurt-1", "build-machine-frankfurt-2"
	text := strings.Repeat("x", 30) + strings.Repeat(" ", 90) + "8m ago  here/planner  " + strings.Repeat("語", 60)
	reason := "nothing listens at 192.0.2.1:7117; start its daemon, and see acpctl doctor: " + strings.Repeat("word ", 10) + "end"
	for _, columns := range []int{1, 20, 40, 80, 160} {
		table := writeAtWidth(t, columns, func(terminal *Terminal) {
			terminal.PrintTable([]string{"NAME", "STATE", "TEXT"}, [][]string{{name1, "connected", text}, {name2, text, text}})
		})
		lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
		for _, line := range lines {
			if CountCells(line) > columns {
				t.Errorf("%d columns: %q", columns, line)
			}
		}
		if len(lines) != 3 || columns >= 80 && (!strings.HasPrefix(lines[1], name1) || !strings.HasPrefix(lines[2], name2)) {
			t.Errorf("%d columns: %q", columns, lines)
		}
	}
	told := writeAtWidth(t, 40, func(terminal *Terminal) {
		terminal.PrintTable([]string{"NAME"}, [][]string{{name1, reason}})
		terminal.Tell("%s", reason)
	})
	for line := range strings.Lines(told) {
		if CountCells(strings.TrimSuffix(line, "\n")) > 40 {
			t.Errorf("%q", line)
		}
	}
	if strings.Count(strings.Join(strings.Fields(told), " "), reason) != 2 {
		t.Errorf("it is not whole:\n%s", told)
	}
}
