package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acpd/acpd/internal/picture"
)

// What a plot looks like, in pixels; text is as wide as most fonts have it.
const (
	plotWidth  = 640.0
	plotSide   = 20.0 // left and right of everything
	stripWidth = 404.0
	valueX     = plotSide + stripWidth + 14

	labelHeight   = 19.0
	stripHeight   = 18.0
	maxDots       = 50 // of a figure
	controlHeight = 12.0
	rowGap        = 9.0
	axisHeight    = 26.0

	labelLetters = 78 // in a line
	termsLetters = 92
)

// drawPlot draws each figure of a record as a strip: values as dots, the median, the quartiles,
// and where the target would be met. Figures of one group and unit follow each other on one axis;
// all changes have the same.
func drawPlot(r record) []byte {
	panels := splitPanels(r.figures)
	terms := joinParts(r.listTerms(), termsLetters)
	if r.Note != "" {
		terms = append(terms, wrapWords(r.Note, termsLetters)...)
	}
	height := 78 + 17*float64(len(terms))
	for _, p := range panels {
		height += p.height()
	}
	d := picture.New(r.Title, describePlot(r, panels), plotWidth, height)
	y := 38.0
	d.AddText("ink big bold", plotSide, y-2, picture.Span{Text: r.Title})
	for _, line := range terms {
		y += 17
		d.AddText("faint small", plotSide, y, picture.Span{Text: line})
	}
	drawLegend(d, y+24, r.figures)
	y += 34
	for _, p := range panels {
		p.draw(d, y)
		y += p.height()
	}
	return d.Encode()
}

// drawLegend says what the marks mean.
func drawLegend(d *picture.Picture, y float64, figures []figure) {
	x := plotSide
	dot, width := "a value", 78.0
	if slices.ContainsFunc(figures, func(f figure) bool { return len(f.values) > maxDots }) {
		dot, width = "a value, or several's median", 196
	}
	for _, l := range []struct {
		text  string
		width float64
		mark  func()
	}{
		{dot, width, func() { d.AddCircle("blue dot", x+6, y-4, 3.5) }},
		{"median", 78, func() { d.AddLine("inkline thick", x+6, y-12, x+6, y+3) }},
		{"quartiles", 92, func() { d.AddRect("faint dot", x, y-7, 12, 5, 0) }},
		{"target met here", 132, func() { d.AddRect("greenpaper", x, y-11, 12, 14, 0) }},
		{"target missed", 0, func() { d.AddCircle("red dot", x+6, y-4, 3.5) }},
	} {
		l.mark()
		d.AddText("faint small", x+18, y, picture.Span{Text: l.text})
		x += l.width
	}
}

// A panel is figures on one axis.
type panel struct {
	axis
	figures []figure
}

func splitPanels(figures []figure) []panel {
	changes := axis{}
	if of := slices.DeleteFunc(slices.Clone(figures), func(f figure) bool { return !f.change }); len(of) > 0 {
		changes = newAxis(of)
	}
	var panels []panel
	for first := 0; first < len(figures); {
		f := figures[first]
		length := slices.IndexFunc(figures[first:], func(g figure) bool {
			return g.group != f.group || g.unit != f.unit || g.change != f.change
		})
		if length < 0 {
			length = len(figures) - first
		}
		p := panel{changes, figures[first : first+length]}
		if !f.change {
			p.axis = newAxis(p.figures)
		}
		panels = append(panels, p)
		first += length
	}
	return panels
}

// unit is what the axis counts.
func (p panel) unit() string {
	if p.change {
		return "% more or less"
	}
	return p.figures[0].unit
}

func (p panel) height() float64 {
	height := axisHeight + 24
	if p.figures[0].group != "" {
		height += labelHeight
	}
	for _, f := range p.figures {
		height += rowHeight(f)
	}
	return height
}

func rowHeight(f figure) float64 {
	if f.control {
		return controlHeight + rowGap - 3
	}
	return labelHeight*float64(len(wrapWords(f.what, labelLetters))) + stripHeight + rowGap
}

func (p panel) x(value float64) float64 { return plotSide + p.place(value)*stripWidth }

func (p panel) tickX(tick float64) float64 { return plotSide + (tick-p.low)/(p.high-p.low)*stripWidth }

func (p panel) draw(d *picture.Picture, y float64) {
	y += 18
	if group := p.figures[0].group; group != "" {
		d.AddText("ink bold", plotSide, y, picture.Span{Text: group})
		y += labelHeight
	}
	ticks := p.listTicks()
	for i, tick := range ticks {
		place := "faint small middle"
		switch i {
		case 0:
			place = "faint small"
		case len(ticks) - 1:
			place = "faint small end"
		}
		d.AddText(place, p.tickX(tick), y, picture.Span{Text: p.formatTick(tick)})
	}
	d.AddText("faint small", valueX, y, picture.Span{Text: p.unit()})
	y += axisHeight - 18
	for _, f := range p.figures {
		p.drawRow(d, y, f)
		y += rowHeight(f)
	}
}

// drawRow draws a figure: what it is, its strip, and its median with the verdict in words. The strip of a control
// is thinner, and what it is stands behind its median.
func (p panel) drawRow(d *picture.Picture, y float64, f figure) {
	dots, median, height := "blue dot", "inkline thick", stripHeight
	if f.control {
		dots, median, height = "faint dot", "faintline thick", controlHeight
		y -= 3
	} else {
		for _, line := range wrapWords(f.what, labelLetters) {
			y += labelHeight
			d.AddText("ink", plotSide, y-5, picture.Span{Text: line})
		}
	}
	d.AddRect("track", plotSide, y, stripWidth, height, 0)
	words := []picture.Span{{Class: "bold", Text: p.formatValue(summarizeValues(f.values).median)}}
	class := "ink"
	switch {
	case f.control:
		class, words[0].Class = "faint small", ""
		_, name, named := strings.Cut(f.what, ": ")
		if !named {
			name = f.what
		}
		words = append(words, picture.Span{Text: "  " + name})
	case f.target > 0:
		if !f.isMet() {
			dots = "red dot"
		}
		p.drawTarget(d, y, height, f)
		words = append(words, picture.Span{Class: "faint", Text: "  " + p.formatTarget(f) + "  "}, f.colourVerdict())
	}
	for _, tick := range p.listTicks() {
		class := "grid"
		if tick == 0 {
			class = "faintline"
		}
		d.AddLine(class, p.tickX(tick), y, p.tickX(tick), y+height)
	}
	s := summarizeValues(f.values)
	d.AddRect("faint dot", p.x(s.q1), y+height/2-2.5, p.x(s.q3)-p.x(s.q1), 5, 0)
	shown := f.listDots()
	for i, v := range shown { // one below the other, so that equal ones are seen
		offset := 0.0
		if n := len(shown); n > 1 {
			offset = (float64(i)/float64(n-1) - 0.5) * (height - 7)
		}
		d.AddCircle(dots, p.x(v), y+height/2+offset, 3.5)
	}
	d.AddLine(median, p.x(s.median), y, p.x(s.median), y+height)
	d.AddText(class, valueX, y+height/2+5, words...)
}

// drawTarget colours where the target is met.
func (p panel) drawTarget(d *picture.Picture, y, height float64, f figure) {
	from, to := plotSide, p.x(f.target)
	if f.high {
		from, to = to, plotSide+stripWidth
	}
	d.AddRect("greenpaper", from, y, to-from, height, 0)
	d.AddLine("greenline", p.x(f.target), y-2, p.x(f.target), y+height+2)
}

// colourVerdict says whether the target is met, and that it is only by the tolerance.
func (f figure) colourVerdict() picture.Span {
	if !f.isMet() {
		return picture.Span{Class: "red bold", Text: "missed"}
	}
	bare := f
	bare.strict = true
	if !bare.isMet() {
		return picture.Span{Class: "green", Text: fmt.Sprintf("met within %g %%", tolerance*100)}
	}
	return picture.Span{Class: "green", Text: "met"}
}

// describePlot says in words what the plot shows.
func describePlot(r record, panels []panel) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. %s.", r.describeTerms(), countMissed(r.figures))
	for _, p := range panels {
		for _, f := range p.figures {
			fmt.Fprintf(&b, " %s: median %s", f.label(), p.formatValue(summarizeValues(f.values).median))
			if !p.change {
				fmt.Fprintf(&b, " %s", f.unit)
			}
			if len(f.values) > 1 {
				fmt.Fprintf(&b, " of %d, from %s to %s", len(f.values), p.formatValue(slices.Min(f.values)), p.formatValue(slices.Max(f.values)))
			}
			if f.target > 0 {
				fmt.Fprintf(&b, "; target %s, %s", p.formatTarget(f), f.colourVerdict().Text)
			}
			b.WriteString(".")
		}
	}
	return b.String()
}

// countMissed says how many targets the figures miss.
func countMissed(figures []figure) string {
	targets, missed := 0, 0
	for _, f := range figures {
		if f.target > 0 {
			targets++
			if !f.isMet() {
				missed++
			}
		}
	}
	switch {
	case targets == 0:
		return "No targets"
	case missed == 0:
		return fmt.Sprintf("All targets are met, %d of %d", targets, targets)
	}
	return fmt.Sprintf("Targets missed: %d of %d", missed, targets)
}
