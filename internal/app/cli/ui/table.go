package ui

import (
	"math"
	"strings"

	"github.com/acpd/acpd/client"
)

const (
	columnGap  = 2
	mostCells  = 48 // of a name: those that people give are whole
	leastShare = 16 // of the last column, in MeasureTextRoom
)

// PrintTable prints rows: on a terminal aligned below a head, else separated by tabs. A line is cut where its terminal
// ends, so a value that may be long belongs in the last column. A field after the last column of the head is a reason
// or a remedy: on a terminal it is printed whole, below the row.
func (t *Terminal) PrintTable(head []string, rows [][]string) {
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
	cells := measureColumns(head, rows)
	width := t.OutWidth()
	line := func(row []string, colourOf func(string) string) {
		var b strings.Builder
		room := width
		for i, cell := range row[:len(head)] {
			if i < len(head)-1 {
				cell = CutName(cell)
			}
			cell = CutCells(cell, room)
			b.WriteString(t.ColourText(colourOf(cell), cell) + strings.Repeat(" ", max(cells[i]-CountCells(cell), 0)+columnGap))
			room = max(room-cells[i]-columnGap, 0)
		}
		t.PrintLine("%s", strings.TrimRight(b.String(), " "))
	}
	line(head, func(string) string { return Bold })
	for _, row := range rows {
		line(row, func(cell string) string { return stateColours[cell] })
		for _, note := range row[len(head):] {
			if note != "" {
				t.PrintLine("%s", WrapBehind("    ", note, width))
			}
		}
	}
}

// MeasureTextRoom returns how many cells of a line PrintTable leaves to the last column, for rows that
// do not have it yet; math.MaxInt where it cuts nothing.
func (t *Terminal) MeasureTextRoom(head []string, rows [][]string) int {
	room := t.OutWidth()
	if !t.OutTTY || room == math.MaxInt {
		return math.MaxInt
	}
	for _, n := range measureColumns(head, rows)[:len(head)-1] {
		room -= n + columnGap
	}
	return max(room, leastShare)
}

// measureColumns returns how many cells each column of a table takes.
func measureColumns(head []string, rows [][]string) []int {
	cells := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i := range min(len(row), len(head)) {
			cell := row[i]
			if i < len(head)-1 {
				cell = CutName(cell)
			}
			cells[i] = max(cells[i], CountCells(cell))
		}
	}
	return cells
}
