package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A figure is something that was measured, once or several times. Less is better, but of rates.
type figure struct {
	group  string // what it has in common with its neighbours, which are compared with it
	what   string
	unit   string
	values []float64
}

func (f *figure) add(value float64) { f.values = append(f.values, value) }

// format is the median, with the quartiles in brackets if there are several values.
func (f figure) format() string {
	s := summarizeValues(f.values)
	if len(f.values) == 1 {
		return formatValue(s.median) + " " + f.unit
	}
	return fmt.Sprintf("%s (%s–%s) %s", formatValue(s.median), formatValue(s.q1), formatValue(s.q3), f.unit)
}

// formatValue writes a value with three significant digits.
func formatValue(value float64) string {
	digits := 0
	if value != 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(math.Abs(value)))))
	}
	return strconv.FormatFloat(value, 'f', digits, 64)
}

// splitGroups splits figures into groups, which are not empty.
func splitGroups(figures []figure) (groups [][]figure) {
	for len(figures) > 0 {
		length := slices.IndexFunc(figures, func(f figure) bool { return f.group != figures[0].group })
		if length < 0 {
			length = len(figures)
		}
		groups = append(groups, figures[:length])
		figures = figures[length:]
	}
	return groups
}

// formatTable writes figures as a Markdown table with a row for each group. The columns are named if all groups
// have figures of the same names; otherwise each cell names its figure.
func formatTable(figures []figure) string {
	groups := splitGroups(figures)
	names := listNames(groups[0])
	named := true
	for _, g := range groups {
		own := listNames(g)
		named = named && slices.Equal(own, names)
		if len(own) > len(names) {
			names = own
		}
	}
	var b strings.Builder
	head := append([]string{""}, names...)
	if !named {
		clear(head)
	}
	writeRow(&b, head)
	writeRow(&b, append([]string{"---"}, slices.Repeat([]string{"---:"}, len(names))...))
	for _, g := range groups {
		row := []string{g[0].group}
		for _, f := range g {
			cell := f.format()
			if !named {
				cell = f.what + ": " + cell
			}
			row = append(row, cell)
		}
		for len(row) < len(head) {
			row = append(row, "")
		}
		writeRow(&b, row)
	}
	return b.String()
}

func listNames(group []figure) (names []string) {
	for _, f := range group {
		names = append(names, f.what)
	}
	return names
}

func writeRow(b *strings.Builder, cells []string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
