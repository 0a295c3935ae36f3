package ui

import (
	"math"
	"strings"

	"github.com/acpd/acpd/client"
)

const (
	leastText  = 16 // cells of the last column of a table that is cut to its terminal, if there are so many
	leastCells = 8  // of another column that gives way to it
	columnGap  = 2
)

// PrintTable prints rows: on a terminal aligned below a head, else separated by tabs.
func (t *Terminal) PrintTable(head []string, rows [][]string) { t.printTable(head, rows, math.MaxInt) }

// PrintTextTable does as PrintTable does, and cuts rows to the width of the terminal: the last column first,
// which is text, then the widest of the others.
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
	line := func(row []string, colour func(string) string) {
		var b strings.Builder
		last := len(row) - 1
		for i, cell := range row[:last] {
			fit := FitCells(cell, cells[i])
			shown := strings.TrimRight(fit, " ")
			b.WriteString(t.ColourText(colour(cell), shown) + fit[len(shown):] + strings.Repeat(" ", columnGap))
		}
		b.WriteString(t.ColourText(colour(row[last]), CutCells(row[last], cells[last])))
		t.PrintLine("%s", strings.TrimRight(b.String(), " "))
	}
	line(head, func(string) string { return Bold })
	for _, row := range rows {
		line(row, func(cell string) string { return stateColours[cell] })
	}
}

// measureColumns returns how many cells each column of a table takes, so that a line fits so many. A
// terminal that is too narrow for all columns gets lines that do not.
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
		if least := min(leastText, cells[last]); room < least && last > 0 && cells[widest] > leastCells {
			cells[widest] = max(leastCells, cells[widest]-(least-room))
			continue
		}
		cells[last] = min(cells[last], max(room, leastCells))
		return cells
	}
}
