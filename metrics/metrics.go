// Package metrics has counters and histograms with labels whose values are known beforehand, and writes
// them in the text format of Prometheus, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
//
// It knows neither what is counted nor how the text travels. Nothing here blocks, but for a
// moment that of other counts of the same number.
package metrics

import (
	"strconv"
	"strings"
)

// Type is how the values of a family behave.
type Type string

// The types of families.
const (
	Counter       Type = "counter"   // it only grows, until the program ends
	Gauge         Type = "gauge"     // it goes up and down
	HistogramType Type = "histogram" // values, counted by size
)

// Family is one metric with all its series.
type Family struct {
	Name  string // of the metric, with its unit at the end
	Type  Type
	Help  string      // one line for people
	Write func(*Text) // writes the series
}

// Text is the text of a scrape while it is written.
type Text struct {
	bytes  []byte
	name   string  // of the family that is being written
	labels []Label // of the series that a grid writes; its room is used again
}

// AppendFamilies appends the text of families to b, in their order. Families without a series
// are left out.
func AppendFamilies(b []byte, all []Family) []byte {
	t := &Text{bytes: b}
	for _, f := range all {
		before := len(t.bytes)
		t.name = f.Name
		t.bytes = append(t.bytes, "# HELP "+f.Name+" "+escapeHelp.Replace(f.Help)+"\n# TYPE "+f.Name+" "+string(f.Type)+"\n"...)
		head := len(t.bytes)
		if f.Write(t); len(t.bytes) == head {
			t.bytes = t.bytes[:before]
		}
	}
	return t.bytes
}

// Label is a name and a value that tell series of one family apart.
type Label struct{ Name, Value string }

// Add adds a series of the family.
func (t *Text) Add(value float64, labels ...Label) { t.addSeries("", value, labels) }

// addSeries adds a series whose name is the family's with a suffix.
func (t *Text) addSeries(suffix string, value float64, labels []Label) {
	b := append(append(t.bytes, t.name...), suffix...)
	for i, l := range labels {
		b = append(b, separators[min(i, 1)])
		b = append(append(b, l.Name...), `="`...)
		b = append(append(b, escapeValue.Replace(strings.ToValidUTF8(l.Value, "\uFFFD"))...), '"')
	}
	if len(labels) > 0 {
		b = append(b, '}')
	}
	b = strconv.AppendFloat(append(b, ' '), value, 'g', -1, 64)
	t.bytes = append(b, '\n')
}

var (
	separators  = [2]byte{'{', ','}
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// One returns what writes a family of one series without labels.
func One[N int | int64 | uint64 | float64](value N) func(*Text) {
	return func(t *Text) { t.Add(float64(value)) }
}

// OneKnown returns a function that writes a family of one series. It writes nothing if the value is
// negative, that is, not known.
func OneKnown(value float64) func(*Text) {
	return func(t *Text) {
		if value >= 0 {
			t.Add(value)
		}
	}
}
