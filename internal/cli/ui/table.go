package ui

import (
	"math"
	"strings"

	"github.com/acpd/acpd/client"
)

const (
	leastText  = 16 // cells of the last column of a table that is cut to its terminal, if there are so many
	leastCells = 10 // of another column that gives way to it: ids, kinds and ages have no more
	columnGap  = 2
)

// PrintTable prints rows: on a terminal aligned below a head, else separated by tabs.
func (t *Terminal) PrintTable(head []string, rows [][]string) { t.printTable(head, rows, math.MaxInt) }

// PrintTextTable does as PrintTable does, and cuts rows to the width of the terminal: the last column first,
// which is text, then the widest of the others, in which no two names look the same ([Names]). So no line
// has a second one, whatever peers write.
func (t *Terminal) PrintTextTable(head []string, rows [][]string) {
	t.printTable(head, rows, t.OutWidth())
}

// MeasureTextRoom returns how many cells of a line PrintTextTable leaves to the last column, for rows that
// do not have it yet; math.MaxInt where it cuts nothing.
func (t *Terminal) MeasureTextRoom(head []string, rows [][]string) int {
	room := t.OutWidth()
	if !t.OutTTY || room == math.MaxInt {
		return math.MaxInt
	}
	for _, n := range measureColumns(head, rows, math.MaxInt)[:len(head)-1] {
		room -= n + columnGap
	}
	return max(room, leastText)
}

func (t *Terminal) printTable(head []string, rows [][]string, width int) {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = client.Line(cell)
		}
	}
	if len(rows) == 0 {
		t.PrintForPerson("none")
		return
	}
	if !t.OutTTY {
		for _, row := range rows {
			t.PrintLine("%s", strings.Join(row, "\t"))
		}
		return
	}
	cells := measureColumns(head, rows, width)
	var names Names
	line := func(row []string, colour func(string) string) {
		var b strings.Builder
		last, room := len(row)-1, width
		for i, cell := range row {
			shown, most := cell, min(cells[i], room) // room ends first where a terminal is too narrow for all columns
			if i == last {
				shown = CutCells(cell, most)
			} else if CountCells(cell) > most {
				shown = cutCell(&names, cell, most)
			}
			b.WriteString(t.ColourText(colour(cell), shown) + strings.Repeat(" ", cells[i]-CountCells(shown)+columnGap))
			room = max(room-cells[i]-columnGap, 0)
		}
		t.PrintLine("%s", strings.TrimRight(b.String(), " "))
	}
	line(head, func(string) string { return Bold })
	for _, row := range rows {
		line(row, func(cell string) string { return stateColours[cell] })
	}
}

// cutCell returns what stands in a column but the last: words, such as a time, cut at their end, or a name. No name of
// a peer has a space. Before a name may stand how deep it is in a tree, which is cut first.
func cutCell(names *Names, cell string, cells int) string {
	name := strings.TrimLeft(cell, " └")
	if strings.Contains(name, " ") && !strings.Contains(name, "/") {
		return CutCells(cell, cells)
	}
	depth := []rune(strings.TrimSuffix(cell, name))
	depth = depth[len(depth)-max(min(len(depth), cells-leastCells), 0):]
	return string(depth) + names.Cut(name, cells-len(depth))
}

// measureColumns returns how many cells each column of a table takes, so that a line fits so many, unless
// that is too few for all columns.
func measureColumns(head []string, rows [][]string, width int) []int {
	cells := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			cells[i] = max(cells[i], CountCells(cell))
		}
	}
	last := len(cells) - 1
	for {
		room, widest := width, 0
		for i, n := range cells[:last] {
			room -= n + columnGap
			if n > cells[widest] {
				widest = i
			}
		}
		if room < min(leastText, cells[last]) && last > 0 && cells[widest] > leastCells {
			cells[widest]--
			continue
		}
		cells[last] = min(cells[last], max(room, 0))
		return cells
	}
}
