package ui

import (
	"slices"
	"strconv"
	"strings"
)

const (
	leastText  = 16 // cells of the last column of a table that is cut to its terminal, if there are so many
	leastItems = 3  // of a last column of items: +99
	leastCells = 10 // of another column that gives way to it: ids, kinds and ages have no more
	fairCells  = 16 // of another column that has its room before a spare one
	columnGap  = 2
	treeMark   = "└ " // before a name that stands below another
	mostTold   = 8    // texts that are told below a table that has cut them
)

// tableFit says how a table gives way to the width of its terminal.
type tableFit struct {
	width    int      // cells of a line, math.MaxInt if nothing gives way
	spare    []string // heads of columns that are whole or left out, those first that stay before others
	hasItems bool     // the last column has items
	tellsCut bool     // what is cut in the last column is told below
}

// tableColumn is a column that is shown.
type tableColumn struct {
	at      int // its place among all columns
	cells   int // that it takes
	least   int // so many it keeps, unless that is too much for the terminal
	isSpare bool
}

// layOut returns the columns that are shown, so that a line fits the width unless that is too little for all that
// are not spare, and the heads of those that are left out.
func (f *tableFit) layOut(head []string, rows [][]string) (columns []tableColumn, leftOut []string) {
	room, most := f.width, f.width // for the last column and spare ones, and at most for the last one
	for i, n := range measureColumns(head, rows) {
		c := tableColumn{at: i, cells: n, least: leastCells, isSpare: slices.Contains(f.spare, head[i])}
		if slices.ContainsFunc(rows, func(row []string) bool {
			return i < len(row) && strings.HasPrefix(strings.TrimLeft(row[i], " "), treeMark)
		}) {
			c.least += CountCells(treeMark)
		}
		columns = append(columns, c)
		if !c.isSpare && i < len(head)-1 {
			room -= min(n, fairCells) + columnGap
			most -= min(n, leastCells) + columnGap
		}
	}
	least := f.measureLeast(rows, columns[len(columns)-1], most)
	room -= least
	for _, name := range f.spare {
		i := slices.IndexFunc(columns, func(c tableColumn) bool { return head[c.at] == name })
		if i < 0 {
			continue
		}
		if n := columns[i].cells + columnGap; n <= room {
			room -= n
			continue
		}
		columns = slices.Delete(columns, i, i+1)
		leftOut = append(leftOut, name)
	}
	switch last := columns[len(columns)-1]; {
	case last.isSpare:
		least = last.cells
	case last.at < len(head)-1: // what stood last is left out
		least = min(fairCells, last.cells)
	}
	f.squeeze(columns, least)
	return columns, leftOut
}

// measureLeast returns how many cells the last column is to have: those of the longest first item of a row that fits
// most cells, or some of a text.
func (f *tableFit) measureLeast(rows [][]string, last tableColumn, most int) int {
	switch {
	case last.isSpare:
		return 0
	case !f.hasItems:
		return min(leastText, last.cells)
	}
	least := min(leastItems, last.cells)
	for _, row := range rows {
		items := strings.Fields(row[last.at])
		if len(items) == 0 {
			continue
		}
		if n := CountCells(items[0] + formatMore(len(items)-1)); n <= most {
			least = max(least, n)
		}
	}
	return least
}

// squeeze takes cells from the widest columns that are not spare, until the last one has the least that it is to have.
func (f *tableFit) squeeze(columns []tableColumn, least int) {
	last := &columns[len(columns)-1]
	for {
		room := f.width
		var widest *tableColumn
		for i := range columns[:len(columns)-1] {
			c := &columns[i]
			room -= c.cells + columnGap
			if !c.isSpare && c.cells > c.least && (widest == nil || c.cells > widest.cells) {
				widest = c
			}
		}
		if room < min(least, last.cells) && widest != nil {
			widest.cells--
			continue
		}
		last.cells = min(last.cells, max(room, 0))
		return
	}
}

// measureColumns returns how many cells each column of a table takes.
func measureColumns(head []string, rows [][]string) []int {
	cells := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			cells[i] = max(cells[i], CountCells(cell))
		}
	}
	return cells
}

// cutItems returns the first of the items in a line that fit so many cells, and how many more there are.
func cutItems(line string, cells int) string {
	items := strings.Fields(line)
	shown, used := 0, 0
	for ; shown < len(items); shown++ {
		n := used + CountCells(items[shown])
		if n+len(formatMore(len(items)-shown-1)) > cells {
			break
		}
		used = n + len(" ")
	}
	more := formatMore(len(items) - shown)
	return CutCells(strings.TrimLeft(strings.Join(items[:shown], " ")+more, " "), cells)
}

// formatMore returns what stands behind items if there are n more.
func formatMore(n int) string {
	if n == 0 {
		return ""
	}
	return " +" + strconv.Itoa(n)
}
