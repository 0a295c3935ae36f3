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
		Taken: "2026-11-26", Note: "Something else.", System: "linux/amd64", Kernel: "6.18", CPU: "A Processor", CPUs: 2,
		Versions: map[string]string{"Go": "1.26", "acpd": "00be576f"},
	},
	figures: []figure{
		{group: "time & <marks>", what: "rests", unit: "MB", values: []float64{50, 100, 25, 50, 75}},
		{group: "time & <marks>", what: "works", unit: "MB", values: []float64{82}},
		{group: "carried", what: "small", unit: "/s", values: []float64{20, 21, 30}},
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
	svg := drawPlot("A plot", plotted)
	if !slices.Equal(svg, drawPlot("A plot", plotted)) {
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
	for _, group := range splitGroups(plotted.figures) {
		a := newAxis(group)
		for _, f := range group {
			row := findRow(t, marks, f.what)
			var dots []float64
			for _, m := range row {
				if m.name == "circle" {
					dots = append(dots, m.number(t, "cx"))
				}
			}
			if len(dots) != len(f.values) {
				t.Errorf("%s: %d dots, want one for each of %d values", f.what, len(dots), len(f.values))
				continue
			}
			for i, v := range f.values {
				if want := stripX + a.place(v)*stripWidth; math.Abs(dots[i]-want) > 0.06 {
					t.Errorf("%s: %g is drawn at %g, want %g", f.what, v, dots[i], want)
				}
			}
			if median := row[len(row)-1].text; median != formatValue(summarizeValues(f.values).median) {
				t.Errorf("%s: the median is given as %q", f.what, median)
			}
		}
	}
	description := marks[slices.IndexFunc(marks, func(m mark) bool { return m.name == "desc" })].text
	for _, part := range []string{"26 November 2026", "acpd 00be576f", "6.18", "2 × A Processor", "time & <marks>, rests: median 50.0 MB of 5, from 25.0 to 100.", "works: median 82.0 MB."} {
		if !strings.Contains(description, part) {
			t.Errorf("the description lacks %q: %s", part, description)
		}
	}
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
