package main

import (
	"fmt"
	"io"
	"strings"
)

// A figure is something measured once or several times that should be low.
type figure struct {
	what   string
	unit   string
	values []float64
	target float64 // 0: none
	strict bool    // the target counts without tolerance, which would be larger than what it allows
}

func (f figure) isMet() bool {
	atMost := f.target
	if !f.strict {
		atMost *= 1 + tolerance
	}
	return summarizeValues(f.values).median <= atMost
}

// reportFigures writes figures as a Markdown table.
func reportFigures(w io.Writer, figures []figure) error {
	var b strings.Builder
	b.WriteString("Medians, quartiles in brackets where there are several values. 1 MB is 1,000,000 bytes.\n\n")
	writeRow(&b, "what", "figure", "values", "target", "verdict")
	writeRow(&b, "---", "---:", "---:", "---:", "---")
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
			goal, outcome = fmt.Sprintf("≤ %g %s", f.target, f.unit), verdict{met: f.isMet()}.String()
		}
		writeRow(&b, f.what, text+" "+f.unit, fmt.Sprint(len(f.values)), goal, outcome)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
