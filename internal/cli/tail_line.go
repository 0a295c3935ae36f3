package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/ui"
	"github.com/acpd/acpd/wire"
)

// tailColumns has the cells that the columns of a tail take on a terminal, beside the text.
type tailColumns struct {
	clock                            string // layout of the time
	here, there, kind, outcome, took int
}

var (
	wideTail   = tailColumns{"15:04:05.000", 10, 20, 8, 11, 8}
	narrowTail = tailColumns{"15:04:05", 8, 16, 8, 8, 7}
)

const (
	widestNarrow = 109 // columns of a terminal that gets narrowTail
	leastText    = 8   // cells of the text
)

// tailLine is a line of a tail.
type tailLine struct {
	at                          time.Time
	here, sign, there, kind     string
	text, answer, outcome, took string
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
		t.PrintLine("%s", t.ColourText(ui.Yellow, "lost "+strconv.FormatUint(i.lost, 10)))
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

func newEntryLine(e *client.TrafficEntry) *tailLine {
	l := &tailLine{
		at: findEnd(e), here: e.FromAgent, sign: "→", there: e.Agent, kind: e.Kind, text: e.Text, answer: e.Answer,
		outcome: e.Outcome, took: formatTook(time.Duration(e.TookUS) * time.Microsecond),
	}
	if e.Direction == client.In {
		l.here, l.sign, l.there = e.Agent, "←", e.FromAgent
	}
	l.there = joinAgent(formatPeerOf(e), l.there)
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
		t.PrintLine("%s", t.layOut(l, t.OutWidth()))
		return
	}
	fields := []string{l.at.UTC().Format("2006-01-02T15:04:05.000Z"), l.here, l.sign, l.there, l.kind, l.text, l.answer, l.outcome, l.took}
	for i := range fields {
		fields[i] = ui.DashIfEmpty(fields[i])
	}
	t.PrintLine("%s", strings.Join(fields, "\t"))
}

// layOut returns a line for a terminal of that width, [math.MaxInt] if it is not known. Where there is
// little room the text is cut first, then the agent here is left out, and then the outcome.
func (t *tail) layOut(l *tailLine, width int) string {
	c := &wideTail
	if width <= widestNarrow {
		c = &narrowTail
	}
	clock, here := l.at.Local().Format(c.clock)+" ", ui.FitCells(l.here, c.here)+" "
	there, kind := ui.FitCells(l.there, c.there), " "+ui.FitCells(l.kind, c.kind)+" "
	outcome, took := ui.FitCells(l.outcome, c.outcome), fmt.Sprintf(" %*s", c.took, l.took)
	text := l.text
	if l.answer != "" {
		text = strings.TrimPrefix(text+" ⇒ "+l.answer, " ")
	}
	head := clock + here + l.sign + " "
	if width < math.MaxInt {
		rest := there + kind + " " + outcome + took
		room := width - ui.CountCells(head+rest)
		if room < leastText { // the agent here has no room
			head = clock + l.sign + " "
			room = width - ui.CountCells(head+rest)
		}
		text = ui.FitCells(text, max(room, leastText))
		if room < leastText { // outcome and duration have no room
			return ui.FitCells(head+there+kind+text, width)
		}
	}
	return head + t.ColourText(ui.Bold, there) + kind + text + " " + t.ColourText(findOutcomeColour(l.outcome), outcome) + took
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
		text += " thread " + e.Thread
	}
	return text
}

// printPayload prints a payload on a line below its message.
func (t *tail) printPayload(before string, p wire.Payload) {
	if len(p) > 0 {
		t.PrintLine("%s%s", before, client.Line(string(client.JSON(p))))
	}
}

// formatTook returns a duration in three digits or so.
func formatTook(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
