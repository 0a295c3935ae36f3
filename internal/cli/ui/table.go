package ui

import (
	"math"
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
)

// PrintTable prints rows: on a terminal aligned below a head, else separated by tabs.
func (t *Terminal) PrintTable(head []string, rows [][]string) {
	t.printTable(head, rows, tableFit{width: math.MaxInt})
}

// PrintTextTable does as PrintTable does, and fits rows to the width of the terminal. Of the columns that spare
// names, each stays that has room, whole, beside the others and those that were named before it; the person is told
// which are left out. Then rows are cut: the last column first, which is text, then the widest of the others, in
// which no two names look the same ([Names]). So no line has a second one, whatever peers write.
func (t *Terminal) PrintTextTable(head []string, rows [][]string, spare ...string) {
	t.printTable(head, rows, tableFit{width: t.OutWidth(), spare: spare})
}

// PrintReasonTable does as PrintTextTable does. The last column says why something is so: what is cut there is told
// to the person below the table, each text once.
func (t *Terminal) PrintReasonTable(head []string, rows [][]string, spare ...string) {
	t.printTable(head, rows, tableFit{width: t.OutWidth(), spare: spare, tellsCut: true})
}

// PrintItemTable does as PrintTextTable does. The last column has items with spaces between them, such as addresses,
// and cuts none: it has the first ones, and then how many more there are (+2).
func (t *Terminal) PrintItemTable(head []string, rows [][]string, spare ...string) {
	t.printTable(head, rows, tableFit{width: t.OutWidth(), spare: spare, hasItems: true})
}

// MeasureTextRoom returns how many cells of a line PrintTextTable leaves to the last column, for rows that
// do not have it yet; math.MaxInt where it cuts nothing.
func (t *Terminal) MeasureTextRoom(head []string, rows [][]string) int {
	room := t.OutWidth()
	if !t.OutTTY || room == math.MaxInt {
		return math.MaxInt
	}
	for _, n := range measureColumns(head, rows)[:len(head)-1] {
		room -= n + columnGap
	}
	return max(room, leastText)
}

func (t *Terminal) printTable(head []string, rows [][]string, fit tableFit) {
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
	columns, leftOut := fit.layOut(head, rows)
	var names Names
	line := func(row []string, isHead bool) {
		var b strings.Builder
		room := fit.width
		for i, c := range columns {
			cell := row[c.at]
			shown, most := cell, min(c.cells, room) // room ends first where a terminal is too narrow for all columns
			switch isLast := i == len(columns)-1; {
			case CountCells(cell) <= most:
			case isLast && fit.hasItems && !isHead:
				shown = cutItems(cell, most)
			case isLast:
				shown = CutCells(cell, most)
			default:
				shown = cutCell(&names, cell, most)
			}
			colour := Bold
			if !isHead {
				colour = stateColours[cell]
			}
			b.WriteString(t.ColourText(colour, shown) + strings.Repeat(" ", c.cells-CountCells(shown)+columnGap))
			room = max(room-c.cells-columnGap, 0)
		}
		t.PrintLine("%s", strings.TrimRight(b.String(), " "))
	}
	line(head, true)
	for _, row := range rows {
		line(row, false)
	}
	if fit.tellsCut {
		t.tellCut(rows, columns[len(columns)-1])
	}
	if len(leftOut) > 0 {
		t.PrintForPerson("no room here for %s: --json has all", strings.Join(leftOut, ", "))
	}
}

// tellCut tells a person each text of a column that was cut, once, and no more than mostTold of them.
func (t *Terminal) tellCut(rows [][]string, c tableColumn) {
	var told []string
	for _, row := range rows {
		text := row[c.at]
		switch {
		case CountCells(text) <= c.cells || slices.Contains(told, text):
		case len(told) == mostTold:
			t.PrintForPerson("and more: --json has all")
			return
		default:
			t.PrintForPerson("%s", text)
			told = append(told, text)
		}
	}
}

// cutCell returns what stands in a column but the last: words, such as a time, cut at their end, or a name. No name of
// a peer has a space. Before a name may stand how deep it is in a tree, which is cut first, but for the mark itself.
func cutCell(names *Names, cell string, cells int) string {
	name := strings.TrimLeft(cell, " └")
	if strings.Contains(name, " ") && !strings.Contains(name, "/") {
		return CutCells(cell, cells)
	}
	depth := []rune(strings.TrimSuffix(cell, name))
	depth = depth[len(depth)-max(min(len(depth), cells-leastCells), 0):]
	return string(depth) + names.Cut(name, cells-len(depth))
}
