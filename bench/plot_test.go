package main

import (
	"encoding/xml"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var plotted = record{
	recordHead: recordHead{
		Title: "A plot & its <marks>", Command: "test", Taken: "2026-11-26", Note: "Something else.", System: "linux/amd64", Kernel: "6.18", CPU: "A Processor", CPUs: 2,
		Versions: map[string]string{"Go": "1.26", "acpd": "00be576f"},
	},
	figures: []figure{
		{what: "rests", unit: "MB", values: []float64{50, 100, 25, 50, 75}, target: 60},
		{what: "works", unit: "MB", values: []float64{82}, target: 80},
		{what: "fails", unit: "MB", values: []float64{90, 92}, target: 80, strict: true},
		{what: "carries", unit: "MiB/s", values: []float64{20, 21, 30}, target: 25, high: true},
		{what: "is told", unit: "MiB/s", values: []float64{40}},
		{group: "16 at a time", what: "p50: this / other", unit: "times", values: []float64{1.02, 1.03}, target: 1.01, strict: true, change: true},
		{group: "16 at a time", what: "p50: other / other", unit: "times", values: []float64{0.99, 0.98}, change: true, control: true},
	},
}

// mark is an element of a plot.
type mark struct {
	name  string
	attrs map[string]string
	text  string
}

func (m mark) number(t *testing.T, name string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(m.attrs[name], 64)
	if err != nil {
		t.Fatalf("%s of %s: %v", name, m.name, err)
	}
	return v
}

// readMarks reads an SVG; text is that of an element with its spans.
func readMarks(t *testing.T, svg []byte) []mark {
	t.Helper()
	var marks []mark
	var open []int
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := d.Token()
		if token == nil {
			if len(open) > 0 || len(marks) == 0 {
				t.Fatalf("the plot is no XML: %v", err)
			}
			return marks
		}
		switch token := token.(type) {
		case xml.StartElement:
			m := mark{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				m.attrs[a.Name.Local] = a.Value
			}
			open = append(open, len(marks))
			marks = append(marks, m)
		case xml.CharData:
			for _, i := range open {
				marks[i].text += string(token)
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
}

// findRow returns the strip of a figure and what is drawn on it: the strip's marks follow its label.
func findRow(t *testing.T, marks []mark, label string) []mark {
	t.Helper()
	first := slices.IndexFunc(marks, func(m mark) bool { return m.name == "text" && m.text == label })
	if first < 0 {
		t.Fatalf("no label says %q", label)
	}
	row := marks[first+1:]
	if next := slices.IndexFunc(row, func(m mark) bool { return m.name == "text" }); next >= 0 {
		for next+1 < len(row) && row[next+1].name == "tspan" {
			next++
		}
		row = row[:next+1]
	}
	return row
}

func TestPlot(t *testing.T) {
	svg := drawPlot(plotted)
	if !slices.Equal(svg, drawPlot(plotted)) {
		t.Error("the same record gives two plots")
	}
	marks := readMarks(t, svg)
	height := marks[0].number(t, "height")
	for _, m := range marks {
		for _, name := range []string{"y", "y1", "y2", "cy"} {
			if _, ok := m.attrs[name]; ok && (m.number(t, name) < 0 || m.number(t, name) > height-5) && m.attrs["class"] != "paper" {
				t.Errorf("%s %q at %s: outside of the plot, which is %g high", m.name, m.text, m.attrs[name], height)
			}
		}
	}
	for label, want := range map[string]struct {
		figure  figure
		dots    string
		verdict string
	}{
		"rests":             {plotted.figures[0], "blue dot", "50.0  ≤ 60  met"},
		"works":             {plotted.figures[1], "blue dot", "82.0  ≤ 80  met within 5 %"},
		"fails":             {plotted.figures[2], "red dot", "91.0  ≤ 80  missed"},
		"carries":           {plotted.figures[3], "red dot", "21.0  ≥ 25  missed"},
		"is told":           {plotted.figures[4], "blue dot", "40.0"},
		"p50: this / other": {plotted.figures[5], "red dot", "+2.5 %  ≤ +1 %  missed"},
	} {
		row := findRow(t, marks, label)
		axis := panel{axis: newAxis(splitPanels(plotted.figures)[panelOf(label)].figures)}
		var dots []float64
		for _, m := range row {
			switch {
			case m.name == "circle":
				dots = append(dots, m.number(t, "cx"))
				if m.attrs["class"] != want.dots {
					t.Errorf("%s: a dot is %q, want %q", label, m.attrs["class"], want.dots)
				}
			case m.name == "text" && m.text != want.verdict:
				t.Errorf("%s: it says %q, want %q", label, m.text, want.verdict)
			case m.name == "rect" && m.attrs["class"] == "greenpaper":
				from, to := m.number(t, "x"), m.number(t, "x")+m.number(t, "width")
				inside := func(v float64) bool { return axis.x(v) > from-0.1 && axis.x(v) < to+0.1 }
				if target := want.figure.target; inside(target*1.001) != want.figure.high || inside(target*0.999) == want.figure.high {
					t.Errorf("%s: the wrong side of the target is green: %g to %g", label, from, to)
				}
			}
		}
		if len(dots) != len(want.figure.values) {
			t.Errorf("%s: %d dots, want one for each of %d values", label, len(dots), len(want.figure.values))
			continue
		}
		for i, v := range want.figure.values {
			if math.Abs(dots[i]-axis.x(v)) > 0.06 {
				t.Errorf("%s: %g is drawn at %g, want %g", label, v, dots[i], axis.x(v))
			}
		}
	}
	// An axis without a cut: half of the value is half as far from 0.
	if axis := newAxis(plotted.figures[:3]); axis.low != 0 || axis.high != 100 || axis.place(50) != 0.5 {
		t.Errorf("the first axis is %+v", axis)
	}
	description := marks[slices.IndexFunc(marks, func(m mark) bool { return m.name == "desc" })].text
	for _, part := range []string{"26 November 2026", "acpd 00be576f", "6.18", "2 × A Processor", "Targets missed: 3 of 5", "rests: median 50.0 MB of 5, from 25.0 to 100; target ≤ 60, met.", "16 at a time, p50: other / other: median −1.5 % of 2"} {
		if !strings.Contains(description, part) {
			t.Errorf("the description lacks %q: %s", part, description)
		}
	}
}

// TestPlotOfManyValues has a plot show medians of many values, in their order, so that one that is
// far off does not spread the axis.
func TestPlotOfManyValues(t *testing.T) {
	for n, together := range map[int]int{1: 1, maxDots: 1, maxDots + 1: 2, 3 * maxDots: 3} {
		values := make([]float64, n)
		for i := range values {
			values[i] = 10 + float64(i/together)
		}
		if together > 2 {
			values[1] = 1e6
		}
		many := figure{what: "many", unit: "MB", values: values}
		axis := panel{axis: newAxis([]figure{many})}
		if axis.high > 1000 {
			t.Errorf("%d values: the axis goes up to %g", n, axis.high)
		}
		var dots []float64
		for _, m := range findRow(t, readMarks(t, drawPlot(record{figures: []figure{many}})), "many") {
			if m.name == "circle" {
				dots = append(dots, m.number(t, "cx"))
			}
		}
		if want := (n + together - 1) / together; len(dots) != want {
			t.Errorf("%d values: %d dots, want %d", n, len(dots), want)
		}
		for i, x := range dots {
			if want := axis.x(10 + float64(i)); math.Abs(x-want) > 0.06 {
				t.Errorf("%d values: dot %d is at %g, want %g", n, i+1, x, want)
			}
		}
	}
}

func panelOf(label string) int {
	return slices.IndexFunc(splitPanels(plotted.figures), func(p panel) bool {
		return slices.ContainsFunc(p.figures, func(f figure) bool { return f.what == label })
	})
}

func TestJoinParts(t *testing.T) {
	got := joinParts([]string{"one part", "two", "fourteenletters", "x"}, 15)
	if want := []string{"one part · two", "fourteenletters", "x"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWrapWords(t *testing.T) {
	got := wrapWords("one two  three fourteenletters x", 9)
	if want := []string{"one two", "three", "fourteenletters", "x"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
