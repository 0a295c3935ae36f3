package metrics

import (
	"slices"
	"sync/atomic"
)

// ClosedLabel is a label with all the values that it may have. Any other value is
// counted as the last one.
type ClosedLabel struct {
	Name   string
	Values []string
}

// find returns the place of a value.
func (l *ClosedLabel) find(value string) int {
	if at := slices.Index(l.Values, value); at >= 0 {
		return at
	}
	return len(l.Values) - 1
}

// Counts has a counter for each combination of the values of labels. All combinations
// are written from the start, so that the first increase of a series is seen. Its methods may be
// called from any goroutine.
type Counts struct {
	grid
	cells []atomic.Uint64
}

// NewCounts returns a counter for each combination of the labels' values, all zero.
func NewCounts(labels ...ClosedLabel) *Counts {
	g := newGrid(labels)
	return &Counts{g, make([]atomic.Uint64, g.size)}
}

// Add adds n to the number for the values of the labels, which are given in their order.
func (c *Counts) Add(n uint64, values ...string) { c.cells[c.findCell(values)].Add(n) }

// Get returns the number for the values of the labels.
func (c *Counts) Get(values ...string) uint64 { return c.cells[c.findCell(values)].Load() }

// Write writes the series.
func (c *Counts) Write(t *Text) {
	for i := range c.cells {
		t.addSeries("", float64(c.cells[i].Load()), t.listLabels(&c.grid, i))
	}
}

// grid numbers the combinations of the values of labels.
type grid struct {
	labels []ClosedLabel
	size   int
}

func newGrid(labels []ClosedLabel) grid {
	size := 1
	for _, l := range labels {
		size *= len(l.Values)
	}
	return grid{labels, size}
}

func (g *grid) findCell(values []string) (cell int) {
	for i, l := range g.labels {
		cell = cell*len(l.Values) + l.find(values[i])
	}
	return cell
}

// listLabels returns the labels of a cell, until it is called again.
func (t *Text) listLabels(g *grid, cell int) []Label {
	t.labels = slices.Grow(t.labels[:0], len(g.labels)+1)[:len(g.labels)] // a histogram adds one
	for i, l := range slices.Backward(g.labels) {
		t.labels[i] = Label{l.Name, l.Values[cell%len(l.Values)]}
		cell /= len(l.Values)
	}
	return t.labels
}
