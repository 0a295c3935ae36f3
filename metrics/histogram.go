package metrics

import (
	"slices"
	"strconv"
	"sync/atomic"
)

// Histograms counts values by size, for each combination of the values of labels. Its methods
// may be called from any goroutine.
type Histograms struct {
	grid
	bounds []float64 // the largest value of each bucket but the last, which has none
	names  []string  // of the buckets, as text
	unit   float64   // of an observed value, in that of the metric
	all    []histogram
}

type histogram struct {
	buckets []atomic.Uint64 // each counts its own values alone
	sum     atomic.Uint64
}

// NewHistograms returns histograms by labels; without labels, one. bounds are the upper bounds
// of the buckets in the unit of the metric, ascending; a last bucket takes what is larger. unit
// is what 1 means that is observed, in the unit of the metric: 1e-9 for nanoseconds in a metric
// of seconds.
func NewHistograms(unit float64, bounds []float64, labels ...ClosedLabel) *Histograms {
	g := newGrid(labels)
	h := &Histograms{grid: g, bounds: bounds, unit: unit, all: make([]histogram, g.size)}
	for i := range h.all {
		h.all[i].buckets = make([]atomic.Uint64, len(bounds)+1)
	}
	for _, b := range bounds {
		h.names = append(h.names, strconv.FormatFloat(b, 'g', -1, 64))
	}
	h.names = append(h.names, "+Inf")
	return h
}

// Observe counts a value for the values of the labels. A negative one counts as 0.
func (h *Histograms) Observe(value int64, labels ...string) {
	one := &h.all[h.findCell(labels)]
	value = max(value, 0)
	at, _ := slices.BinarySearch(h.bounds, float64(value)*h.unit)
	one.buckets[at].Add(1)
	one.sum.Add(uint64(value))
}

// Write writes the series. What is observed meanwhile may be in the sum and not yet in a
// bucket, or the other way about.
func (h *Histograms) Write(t *Text) {
	for i := range h.all {
		one, labels := &h.all[i], t.listLabels(&h.grid, i)
		sum := float64(one.sum.Load()) * h.unit
		var count uint64
		for at := range one.buckets {
			count += one.buckets[at].Load()
			t.addSeries("_bucket", float64(count), append(labels, Label{"le", h.names[at]}))
		}
		t.addSeries("_sum", sum, labels)
		t.addSeries("_count", float64(count), labels)
	}
}
