package cli

import (
	"fmt"
	"math"
	"strings"

	"github.com/acpd/acpd/internal/cli/ui"
)

const (
	wideTail   = 110 // columns from which on a line has milliseconds and the ids of delegations
	tailResult = 13  // cells of outcome and duration, which most have
	leastText  = 8   // cells of a question, and of its answer, that share the room
	answerMark = " ⇒ "
)

// tailWidths has the cells that the names in a tail take by now. They grow, so that columns stay where they are, but
// no further than one long name in many makes sense.
type tailWidths struct{ here, there int }

func (w *tailWidths) widen(l *tailLine) {
	w.here = min(max(w.here, ui.CountCells(l.here), 6), 12)
	w.there = min(max(w.there, ui.CountCells(l.there), 8), 24)
}

// layOut returns a line for a terminal of that width, [math.MaxInt] if it is not known. What is said stands last, and
// is cut where the line ends.
func (t *tail) layOut(l *tailLine, width int) string {
	clock := "15:04:05"
	if width >= wideTail {
		clock += ".000"
	}
	t.widths.widen(l)
	result := strings.TrimSpace(l.outcome + " " + l.took)
	var b strings.Builder
	room := width
	for _, column := range []struct {
		least        int
		text, colour string
	}{
		{0, l.at.Local().Format(clock), ""},
		{t.widths.here, ui.CutName(l.here), ""},
		{0, l.sign, ""},
		{t.widths.there, ui.CutName(l.there), ui.Bold},
		{8, l.kind, ""},
		{tailResult, result, findOutcomeColour(l.outcome)},
	} {
		shown := ui.CutCells(column.text, room)
		fill := min(max(column.least-ui.CountCells(shown), 0)+1, room-ui.CountCells(shown))
		b.WriteString(t.ColourText(column.colour, shown) + strings.Repeat(" ", fill))
		room -= ui.CountCells(shown) + fill
	}
	b.WriteString(ui.CutCells(l.joinText(width >= wideTail, room), room))
	return strings.TrimRight(b.String(), " ")
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

// repeats reports whether a line says how far a delegation has come of which the line before, on the same terminal, says
// the same: it replaces that one.
func (t *tail) repeats(l *tailLine, width int) bool {
	of := ""
	if l.kind == "result" && strings.HasPrefix(l.text+" ", "partial ") {
		of = fmt.Sprint(l.sign, l.there, l.task)
	}
	isRepeat := of != "" && of == t.partial && t.Colours && width != math.MaxInt && !t.params.Payload
	t.partial = of
	return isRepeat
}
