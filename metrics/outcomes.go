package metrics

// Outcomes has a counter for each outcome of something that ends, by labels, and a histogram of a value of
// each, such as the time that it took. It costs less than [Counts] and [Histograms] apart. Its methods may be
// called from any goroutine.
type Outcomes struct {
	values  *Histograms // whose rows have the counters too: that of the first outcome behind the sum, and the others behind the buckets
	outcome ClosedLabel
}

// NewOutcomes returns outcomes, all zero. The first value of the label outcome should be the most
// frequent one. The rest is as for [NewHistograms].
func NewOutcomes(outcome ClosedLabel, unit float64, bounds []float64, labels ...ClosedLabel) *Outcomes {
	return &Outcomes{newHistograms(unit, bounds, labels, 2, len(outcome.Values)-1), outcome}
}

// Add increases the counter of one outcome for the values of the labels, and observes its value.
func (o *Outcomes) Add(value int64, outcome string, labels ...string) {
	row := o.values.table.row(o.values.findCell(labels))
	o.values.observe(row, value)
	row[o.findPlace(o.outcome.find(outcome))].Add(1)
}

// findPlace returns the place in a row of the count of an outcome.
func (o *Outcomes) findPlace(outcome int) int {
	if outcome == 0 {
		return 1
	}
	return o.values.first + len(o.values.names) + outcome - 1
}

// WriteCounts writes how many there were, by outcome.
func (o *Outcomes) WriteCounts(t *Text) {
	for i := range o.values.size {
		row, labels := o.values.table.row(i), t.listLabels(&o.values.grid, i)
		for at, name := range o.outcome.Values {
			t.addSeries("", float64(row[o.findPlace(at)].Load()), append(labels, Label{o.outcome.Name, name}))
		}
	}
}

// WriteValues writes the histograms of the values.
func (o *Outcomes) WriteValues(t *Text) { o.values.Write(t) }
