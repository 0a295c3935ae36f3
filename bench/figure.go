package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// A figure is something measured once or several times that should be low, or high.
type figure struct {
	group  string // what it has in common with its neighbours; "": nothing
	what   string
	unit   string
	values []float64
	target float64 // may be 0
	high   bool    // it should be high: the target is the least
	strict bool    // the target counts without tolerance, which would be larger than what it allows
	// change says that it is a quotient of which 1 means no difference: a plot shows how many percent
	// it is more, as nothing of that is seen on an axis that begins at 0.
	change bool
	// control says that it is what the figure before it would be if nothing differed.
	control bool
}

// label names the figure where its group does not stand above it.
func (f figure) label() string {
	if f.group == "" {
		return f.what
	}
	return f.group + ", " + f.what
}

// listDots returns what a plot shows of the values: all of them, or of more than maxDots the medians of
// as many that follow one another as needed.
func (f figure) listDots() (dots []float64) {
	for together := range slices.Chunk(f.values, max(1, (len(f.values)+maxDots-1)/maxDots)) {
		dots = append(dots, summarizeValues(together).median)
	}
	return dots
}

// slack is how many times its target a figure may be, and is met.
func (f figure) slack() float64 {
	if f.strict {
		return 1
	}
	return 1 + tolerance
}

func (f figure) isMet() bool {
	median := summarizeValues(f.values).median
	if f.high {
		return median*f.slack() >= f.target
	}
	return median <= f.target*f.slack()
}

// formatTarget is the target with its sign.
func (f figure) formatTarget() string {
	if f.high {
		return fmt.Sprintf("≥ %g", math.Round(1000*f.target)/1000)
	}
	return fmt.Sprintf("≤ %g", math.Round(1000*f.target)/1000)
}

// reportFigures writes figures as a Markdown table.
func reportFigures(w io.Writer, figures []figure) error {
	var b strings.Builder
	b.WriteString("Medians, quartiles in brackets where there are several values. 1 MB is 1,000,000 bytes.\n\n")
	writeFigureRows(&b, figures)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeFigureRows(b *strings.Builder, figures []figure) {
	writeRow(b, "what", "figure", "values", "target", "verdict")
	writeRow(b, "---", "---:", "---:", "---:", "---")
	for _, f := range figures {
		s := summarizeValues(f.values)
		text := fmt.Sprintf("%.3g", s.median)
		if f.strict {
			text = fmt.Sprintf("%.4g", s.median)
		}
		if len(f.values) > 1 {
			text += fmt.Sprintf(" (%.3g–%.3g)", s.q1, s.q3)
		}
		goal, outcome := "", ""
		if f.target > 0 {
			goal, outcome = f.formatTarget()+" "+f.unit, f.colourVerdict().Text
		}
		writeRow(b, f.label(), text+" "+f.unit, fmt.Sprint(len(f.values)), goal, outcome)
	}
}
