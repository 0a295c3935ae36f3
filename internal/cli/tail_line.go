package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
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
	widestNarrow = 109 // columns of a terminal that gets narrowTail
	leastText    = 8   // cells of the text
	answerMark   = " ⇒ "
)

// tailLine is a line of a tail.
type tailLine struct {
	at                          time.Time
	here, sign, there, kind     string
	text, answer, outcome, took string
	task                        string // the id of the delegation that it is about; "": it is about none
}

// printItem prints what a tail has to tell.
func (t *tail) printItem(i *tailItem) {
	switch {
	case t.JSON:
		t.PrintJSON(struct {
			Entry *client.TrafficEntry `json:"entry,omitzero"`
			Event *client.Event        `json:"event,omitzero"`
			Lost  uint64               `json:"lost,omitzero"`
		}{i.entry, i.event, i.lost})
	case i.lost > 0:
		t.PrintLine("%s", t.ColourText(ui.Yellow, t.describeLost(i.lost)))
	case i.event != nil:
		e := i.event
		l := &tailLine{at: e.At, sign: "·", there: client.Line(e.Name), kind: client.Line(string(e.Type)), text: e.DescribeDetails()}
		if l.there == "" && !e.Peer.IsZero() {
			l.there = e.Peer.Label()
		}
		t.printLine(l)
	default:
		e := i.entry
		t.printLine(newEntryLine(e))
		if t.params.Payload {
			t.PrintLine("  %s", client.Line(describeIDs(e)))
		}
		t.printPayload("  ", e.Payload)
		t.printPayload("  ⇒ ", e.AnswerPayload)
	}
}

// describeLost says how many messages were lost, and to a person why.
func (t *tail) describeLost(n uint64) string {
	lost := "lost " + strconv.FormatUint(n, 10)
	if t.OutTTY {
		lost += ": they passed faster than they were read here"
	}
	return lost
}

func newEntryLine(e *client.TrafficEntry) *tailLine {
	l := &tailLine{
		at: findEnd(e), here: e.FromAgent, sign: "→", there: e.Agent, kind: e.Kind, text: e.Text, answer: e.Answer,
		outcome: e.Outcome, took: formatTook(time.Duration(e.TookUS) * time.Microsecond),
	}
	if e.Direction == client.In {
		l.here, l.sign, l.there = e.Agent, "←", e.FromAgent
	}
	l.there = joinAgent(formatPeerOf(e), l.there)
	switch {
	case e.Kind == kinds.KindDelegate:
		l.task = e.ID.String()[:shownIDPrefix]
	case !e.Ref.IsZero():
		l.task = e.Ref.String()[:shownIDPrefix]
	}
	if e.Topic != "" {
		l.text = strings.TrimSuffix(e.Topic+" "+e.Text, " ")
	}
	for _, text := range []*string{&l.here, &l.there, &l.kind, &l.text, &l.answer, &l.outcome} {
		*text = client.Line(*text)
	}
	return l
}

// printLine prints a line: on a terminal in columns, else with tabs between the fields.
func (t *tail) printLine(l *tailLine) {
	if t.OutTTY {
		t.printDay(l.at.Local())
		t.PrintLine("%s", t.layOut(l, t.OutWidth()))
		return
	}
	fields := []string{l.at.UTC().Format("2006-01-02T15:04:05.000Z"), l.here, l.sign, l.there, l.kind, l.text, l.answer, l.outcome, l.took}
	for i := range fields {
		fields[i] = ui.DashIfEmpty(fields[i])
	}
	t.PrintLine("%s", strings.Join(fields, "\t"))
}

// printDay prints a day that is another one than that of the line before, at first than today.
func (t *tail) printDay(at time.Time) {
	const day = "Mon Jan 2 2006"
	if t.day == "" {
		t.day = time.Now().Format(day)
	}
	if now := at.Format(day); now != t.day {
		t.day = now
		t.PrintLine("%s", t.ColourText(ui.Bold, now))
	}
}

// layOut returns a line for a terminal of that width, [math.MaxInt] if it is not known. Where there is
// little room the text is cut first, then the agent here is left out, and then the outcome.
func (t *tail) layOut(l *tailLine, width int) string {
	c := &wideTail
	if width <= widestNarrow {
		c = &narrowTail
	}
	w := &t.widths
	w.widen(l, c)
	clock, here := l.at.Local().Format(c.clock)+" ", ui.FitCells(l.here, min(w.here, c.here))+" "
	there, kind := ui.FitCells(l.there, min(w.there, c.there)), " "+ui.FitCells(l.kind, c.kind)+" "
	outcome, took := ui.FitCells(l.outcome, min(w.outcome, c.outcome)), fmt.Sprintf(" %*s", c.took, l.took)
	head, text := clock+here+l.sign+" ", l.joinText(c.hasTask, math.MaxInt)
	if width < math.MaxInt {
		rest := there + kind + " " + outcome + took
		room := width - ui.CountCells(head+rest)
		if room < leastText { // the agent here has no room
			head = clock + l.sign + " "
			room = width - ui.CountCells(head+rest)
		}
		text = ui.FitCells(l.joinText(c.hasTask, max(room, leastText)), max(room, leastText))
		if room < leastText { // outcome and duration have no room
			return ui.FitCells(head+there+kind+text, width)
		}
	}
	return head + t.ColourText(ui.Bold, there) + kind + text + " " + t.ColourText(findOutcomeColour(l.outcome), outcome) + took
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

func findOutcomeColour(outcome string) string {
	switch outcome {
	case "":
		return ""
	case client.TrafficOK, client.TrafficHanded:
		return ui.Green
	case client.TrafficHeld, client.TrafficSent:
		return ui.Yellow
	}
	return ui.Red
}

// describeIDs returns the id of a message, what it refers to, and its thread.
func describeIDs(e *client.TrafficEntry) string {
	text := "id " + e.ID.String()
	if !e.Ref.IsZero() {
		text += " ref " + e.Ref.String()
	}
	if e.Thread != "" {
		text += " thread " + quoteUnlessPlain(e.Thread)
	}
	return text
}

// quoteUnlessPlain returns a label as it is, or quoted if a terminal would not show all of it, so that two
// labels never look the same.
func quoteUnlessPlain(label string) string {
	if client.Line(label) != label || strings.ContainsAny(label, " \"\\") {
		return strconv.Quote(label)
	}
	return label
}

// printPayload prints a payload on a line below its message.
func (t *tail) printPayload(before string, p wire.Payload) {
	if len(p) > 0 {
		t.PrintLine("%s%s", before, client.Line(string(client.JSON(p))))
	}
}

// formatTook returns a duration in three digits or so, in at most seven characters.
func formatTook(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return "<1µs"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
