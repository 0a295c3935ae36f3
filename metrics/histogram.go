package metrics

import (
	"slices"
	"strconv"
	"sync/atomic"
)

// Histograms has a histogram for each combination of the values of labels. Its methods
// may be called from any goroutine.
type Histograms struct {
	grid
	bounds []float64 // the largest value of each bucket but the last, which is not bounded
	names  []string  // of the buckets, as text
	unit   float64   // of an observed value, in that of the metric
	table  table     // of each row the sum, and then the buckets, which have only their own values and are not cumulative
}

// NewHistograms returns histograms by labels; without labels, one. bounds are the upper bounds
// of the buckets in the unit of the metric, ascending; a last bucket takes what is larger. unit
// is what 1 means that is observed, in the unit of the metric: 1e-9 for nanoseconds in a metric
// of seconds.
func NewHistograms(unit float64, bounds []float64, labels ...ClosedLabel) *Histograms {
	h := &Histograms{grid: newGrid(labels), bounds: bounds, unit: unit}
	for _, b := range bounds {
		h.names = append(h.names, strconv.FormatFloat(b, 'g', -1, 64))
	}
	h.names = append(h.names, "+Inf")
	h.table = newTable(h.size, 1+len(h.names))
	return h
}

// Observe adds a value to the histogram for the values of the labels. A negative value is taken as 0.
func (h *Histograms) Observe(value int64, labels ...string) {
	row := h.table.row(h.findCell(labels))
	value = max(value, 0)
	at, _ := slices.BinarySearch(h.bounds, float64(value)*h.unit)
	row[1+at].Add(1)
	row[0].Add(uint64(value))
}

// Write writes the series. A value that is observed meanwhile may be in the sum and not yet in a
// bucket, or the other way about.
func (h *Histograms) Write(t *Text) {
	for i := range h.size {
		row, labels := h.table.row(i), t.listLabels(&h.grid, i)
		sum := float64(row[0].Load()) * h.unit
		var count uint64
		for at, name := range h.names {
			count += row[1+at].Load()
			t.addSeries("_bucket", float64(count), append(labels, Label{"le", name}))
		}
		t.addSeries("_sum", sum, labels)
		t.addSeries("_count", float64(count), labels)
	}
}

// table holds rows of numbers that are counted together. A row begins a line of the processor's
// cache, of 64 bytes, so that an increase takes few lines from other cores.
type table struct {
	numbers []atomic.Uint64
	width   int // of a row
}

func newTable(rows, width int) table {
	const line = 8
	width = (width + line - 1) / line * line
	return table{make([]atomic.Uint64, rows*width), width}
}

func (t *table) row(i int) []atomic.Uint64 { return t.numbers[i*t.width : (i+1)*t.width] }
