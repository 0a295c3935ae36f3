package watch

import (
	"math"
	"strings"

	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

const (
	wideTail   = 110 // columns from which on a line has milliseconds and the ids of delegations
	tailResult = 13  // cells of outcome and duration, which most have
	leastText  = 8   // cells of a question, and of its answer, that share the room
	answerMark = " ⇒ "
)

// sizeNames returns the cells of both columns of names. They depend only on the width of the terminal, so that all
// columns stay where they are.
func sizeNames(width int) (here, there int) {
	return min(max(width/10, 8), 12), min(max((width-48)/2, 8), 24)
}

// fitPeer returns PEER or PEER/AGENT with the agent cut in its middle, so that both take so many cells.
func fitPeer(text string, cells int) string {
	if peer, agent, named := strings.Cut(text, "/"); named {
		text = peer + "/" + ui.CutMiddle(agent, max(cells-ui.CountCells(peer)-1, 4))
	}
	return ui.CutName(text)
}

// layOut returns a line for a terminal of that width, [math.MaxInt] if it is not known. The text of a message comes
// last, and is cut where the line ends.
func (t *tail) layOut(l *tailLine, width int) string {
	clock := "15:04:05"
	if width >= wideTail {
		clock += ".000"
	}
	here, there := sizeNames(width)
	result := strings.TrimSpace(l.outcome + " " + l.took)
	var b strings.Builder
	room, end := width, 0
	for _, column := range []struct {
		cells        int // a longer text takes the room of those that follow
		text, colour string
	}{
		{len(clock), l.at.Local().Format(clock), ""},
		{here, ui.CutMiddle(l.here, here), ""},
		{1, l.sign, ""},
		{there, fitPeer(l.there, there), ui.Bold},
		{8, l.kind, ""},
		{tailResult, result, findOutcomeColour(l.outcome)},
	} {
		shown := ui.CutCells(column.text, room)
		room -= ui.CountCells(shown)
		end += column.cells + 1
		fill := min(max(end-(width-room), 1), room)
		b.WriteString(t.ColourText(column.colour, shown) + strings.Repeat(" ", fill))
		room -= fill
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

// replacesLine reports whether a line and the one before it on the same terminal show partial results of one delegation:
// the new one replaces the other.
func (t *tail) replacesLine(l *tailLine, width int) bool {
	of := ""
	if l.kind == kinds.KindResult && strings.HasPrefix(l.text+" ", "partial ") {
		of = l.sign + l.there + l.task
	}
	isSame := of != "" && of == t.partial
	t.partial = of
	return isSame && t.Colours && width != math.MaxInt && !t.params.Payload
}
