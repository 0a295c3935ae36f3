package cli

import (
	"fmt"
	"math"
	"strings"

	"github.com/acpd/acpd/internal/cli/ui"
)

// tailColumns has the cells that the columns of a tail take on a terminal, beside the text: at most those
// of here, there and outcome, which take what has been shown in them.
type tailColumns struct {
	clock                            string // layout of the time
	here, there, kind, outcome, took int
	hasTask                          bool // the text begins with the id of the delegation that it is about
}

var (
	wideTail   = tailColumns{"15:04:05.000", 12, 24, 8, 14, 7, true}
	narrowTail = tailColumns{"15:04:05", 8, 16, 8, 11, 7, false}
)

// tailWidths has the cells that columns take by now.
type tailWidths struct{ here, there, outcome int }

// leastTail is what columns take at first. A column that grew with the first long name would move all
// that follows.
var leastTail = tailWidths{here: 6, there: 8, outcome: 6}

// widen has the columns fit a line too, as far as c permits.
func (w *tailWidths) widen(l *tailLine, c *tailColumns) {
	for _, one := range []struct {
		width *int
		text  string
		most  int
		least int
	}{{&w.here, l.here, c.here, leastTail.here}, {&w.there, l.there, c.there, leastTail.there}, {&w.outcome, l.outcome, c.outcome, leastTail.outcome}} {
		*one.width = min(max(*one.width, ui.CountCells(one.text), one.least), one.most)
	}
}

const (
	widestNarrow   = 109 // columns of a terminal that gets narrowTail
	leastText      = 8   // cells of the text, while the agent here is shown
	leastThere     = 10  // of peer and agent there: so many tell a peer from all others
	leastKind      = 5
	longestOutcome = 20 // of an outcome, where the text can give way: as incompatible_version has
	answerMark     = " ⇒ "
)

// tailFit has the cells that each column of a line gets; 0: it is left out.
type tailFit struct{ clock, here, there, kind, text, outcome, took int }

// countRoom returns the cells that a line of that width has for the text, with the space before it. It is below
// 0 if the other columns do not fit.
func (f *tailFit) countRoom(width int) int {
	room := width - 1 // for the sign
	for _, cells := range []int{f.clock, f.here, f.there, f.kind, f.outcome, f.took} {
		if cells > 0 {
			room -= cells + 1
		}
	}
	return room
}

// fitColumns returns what a line of that width gives to each column. Where there is little room the text is cut
// first. Then the agent here is left out, and then, one after the other, the text, the agent there is cut,
// the time is left out, and the kind is cut. Outcome and duration stay.
func (w *tailWidths) fitColumns(l *tailLine, c *tailColumns, width int) (f tailFit) {
	f = tailFit{
		clock: len(c.clock), here: min(w.here, c.here), there: min(w.there, c.there), kind: c.kind, outcome: min(w.outcome, c.outcome), took: c.took,
	}
	if f.countRoom(width) <= leastText {
		f.here = 0
	}
	if more := min(ui.CountCells(l.outcome), longestOutcome) - f.outcome; more > 0 { // of the text's room
		f.outcome += max(min(more, f.countRoom(width)), 0)
	}
	give := func(cells *int, least int) {
		if room := f.countRoom(width); room < 0 {
			*cells = min(*cells, max(*cells+room, least))
		}
	}
	give(&f.there, leastThere)
	if f.countRoom(width) < 0 {
		f.clock = 0
	}
	give(&f.kind, leastKind)
	f.text = max(f.countRoom(width)-1, 0)
	return f
}

// layOut returns a line for a terminal of that width, [math.MaxInt] if it is not known.
func (t *tail) layOut(l *tailLine, width int) string {
	c := &wideTail
	if width <= widestNarrow {
		c = &narrowTail
	}
	t.widths.widen(l, c)
	f := t.widths.fitColumns(l, c, width)
	text := l.joinText(c.hasTask, f.text)
	if width == math.MaxInt {
		f.text = ui.CountCells(text)
	}
	var b strings.Builder
	room := width
	for _, column := range []struct {
		cells        int
		text, colour string
	}{
		{f.clock, l.at.Local().Format(c.clock), ""},
		{f.here, ui.CutMiddle(l.here, f.here), ""},
		{1, l.sign, ""},
		{f.there, t.names.Cut(l.there, f.there), ui.Bold},
		{f.kind, l.kind, ""},
		{f.text, text, ""},
		{f.outcome, l.outcome, findOutcomeColour(l.outcome)},
		{f.took, fmt.Sprintf("%*s", f.took, l.took), ""},
	} {
		if column.cells == 0 || room == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(" ")
			room--
		}
		shown := ui.FitCells(column.text, min(column.cells, room)) // room ends first where a terminal is too narrow even so
		b.WriteString(t.ColourText(column.colour, shown))
		room -= ui.CountCells(shown)
	}
	if width < math.MaxInt {
		b.WriteString(strings.Repeat(" ", room))
	}
	return b.String()
}

// joinText returns what a message says and its answer. If they do not fit so many cells, each keeps a share.
func (l *tailLine) joinText(hasTask bool, cells int) string {
	text, answer := l.text, l.answer
	if hasTask && l.task != "" {
		text = strings.TrimSuffix(l.task+" "+text, " ")
	}
	switch room := cells - ui.CountCells(answerMark); {
	case answer == "":
		return text
	case text == "":
		return strings.TrimPrefix(answerMark, " ") + answer
	case room >= 2*leastText:
		text, answer = ui.ShareCells(text, answer, room)
	}
	return text + answerMark + answer
}
