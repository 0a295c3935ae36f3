package main

import (
	"fmt"
	"io"
	"strings"
)

// A figure is something measured once or several times that should be low, or high.
type figure struct {
	what   string
	unit   string
	values []float64
	target float64 // 0: none
	high   bool    // it should be high: the target is the least
	strict bool    // the target counts without tolerance, which would be larger than what it allows
}

func (f figure) isMet() bool {
	slack := 1 + tolerance
	if f.strict {
		slack = 1
	}
	median := summarizeValues(f.values).median
	if f.high {
		return median*slack >= f.target
	}
	return median <= f.target*slack
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
			sign := "≤"
			if f.high {
				sign = "≥"
			}
			goal, outcome = fmt.Sprintf("%s %g %s", sign, f.target, f.unit), verdict{met: f.isMet()}.String()
		}
		writeRow(&b, f.what, text+" "+f.unit, fmt.Sprint(len(f.values)), goal, outcome)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
