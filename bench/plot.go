package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acpd/acpd/integration/picture"
)

// The layout of a plot, in pixels; text is as wide as most fonts have it.
const (
	plotWidth  = 700.0
	plotSide   = 20.0 // left and right of everything
	stripX     = 130.0
	stripWidth = 400.0
	valueX     = stripX + stripWidth + 28

	titleBottom = 36.0
	lineHeight  = 17.0
	groupHeight = 44.0 // the group's name, and its axis
	rowHeight   = 20.0
	stripHeight = 14.0
	groupGap    = 12.0
	dotRadius   = 3.0

	termsLetters = 100 // in a line
	termsMark    = " · "
)

// drawPlot draws each figure of a record as a strip, with its values as dots and the median. The figures of one
// group are on one axis.
func drawPlot(title string, r record) []byte {
	terms := joinParts(r.listTerms(), termsLetters)
	if r.Note != "" {
		terms = append(terms, wrapWords(r.Note, termsLetters)...)
	}
	terms = append(terms, "A dot is a value, the line is the median.")
	groups := splitGroups(r.figures)
	height := titleBottom + lineHeight*float64(len(terms)) + plotSide
	for _, g := range groups {
		height += groupHeight + rowHeight*float64(len(g)) + groupGap
	}
	d := picture.New(title, describePlot(r), plotWidth, height)
	y := titleBottom
	d.AddText("ink big bold", plotSide, y, picture.Span{Text: title})
	for _, line := range terms {
		y += lineHeight
		d.AddText("faint small", plotSide, y, picture.Span{Text: line})
	}
	for _, g := range groups {
		y += groupGap
		drawGroup(d, y, g)
		y += groupHeight + rowHeight*float64(len(g))
	}
	return d.Encode()
}

// drawGroup draws figures of one group below y.
func drawGroup(d *picture.Picture, y float64, group []figure) {
	a := newAxis(group)
	x := func(value float64) float64 { return stripX + a.place(value)*stripWidth }
	d.AddText("ink bold", plotSide, y+lineHeight, picture.Span{Text: group[0].group})
	ticks := a.listTicks()
	for _, tick := range ticks {
		d.AddText("faint small middle", x(tick), y+2*lineHeight+4, picture.Span{Text: a.formatTick(tick)})
	}
	d.AddText("faint small", valueX, y+2*lineHeight+4, picture.Span{Text: group[0].unit})
	y += groupHeight
	for _, f := range group {
		d.AddText("ink small", plotSide, y+stripHeight-2, picture.Span{Text: f.what})
		d.AddRect("track", stripX, y, stripWidth, stripHeight, 0)
		for _, tick := range ticks {
			d.AddLine("grid", x(tick), y, x(tick), y+stripHeight)
		}
		for _, v := range f.values {
			d.AddCircle("blue dot", x(v), y+stripHeight/2, dotRadius)
		}
		median := summarizeValues(f.values).median
		d.AddLine("inkline thick", x(median), y, x(median), y+stripHeight)
		d.AddText("ink small bold", valueX, y+stripHeight-2, picture.Span{Text: formatValue(median)})
		y += rowHeight
	}
}

// describePlot says in words what the plot shows.
func describePlot(r record) string {
	var b strings.Builder
	b.WriteString(strings.Join(r.listTerms(), termsMark) + ".")
	for _, f := range r.figures {
		fmt.Fprintf(&b, " %s, %s: median %s %s", f.group, f.what, formatValue(summarizeValues(f.values).median), f.unit)
		if len(f.values) > 1 {
			fmt.Fprintf(&b, " of %d, from %s to %s", len(f.values), formatValue(slices.Min(f.values)), formatValue(slices.Max(f.values)))
		}
		b.WriteString(".")
	}
	return b.String()
}
