package watch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
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
		t.partial = ""
		t.PrintLine("%s", t.ColourText(ui.Yellow, fmt.Sprintf("lost %d", i.lost)))
	case i.event != nil:
		e := i.event
		t.printLine(&tailLine{at: e.At, sign: "·", there: formatPeerOfEvent(e), kind: client.Line(string(e.Type)), text: e.DescribeDetails()})
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

// claiming has the events of daemons that may be strangers: their names are what they call themselves, or what
// anybody on the network has called them.
var claiming = []client.EventType{client.EventDiscovered, client.EventLost, client.EventPending}

// formatPeerOfEvent returns the name of an event's peer, in quotes if nothing proves it, so that no stranger looks like a
// peer.
func formatPeerOfEvent(e *client.Event) string {
	switch name := client.Line(e.Name); {
	case name == "" && e.Peer.IsZero():
		return ""
	case name == "":
		return e.Peer.Label()
	case slices.Contains(claiming, e.Type):
		return `"` + name + `"`
	default:
		return name
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
	switch {
	case e.Kind == kinds.KindDelegate:
		l.task = ui.ShortID(e.ID)
		if l.outcome == client.TrafficOK {
			l.outcome = string(client.TaskAccepted) // its ack; how it ends comes as a message of its own
		}
	case !e.Ref.IsZero():
		l.task = ui.ShortID(e.Ref)
	}
	if e.Topic != "" {
		l.text = strings.TrimSuffix(e.Topic+" "+e.Text, " ")
	}
	for _, text := range []*string{&l.here, &l.there, &l.kind, &l.text, &l.answer, &l.outcome} {
		*text = client.Line(*text)
	}
	l.text = strings.ReplaceAll(l.text, strings.TrimSpace(answerMark), "=>") // it has no answer in it
	return l
}

// printLine prints a line: on a terminal in columns, else with tabs between the fields.
func (t *tail) printLine(l *tailLine) {
	if t.OutTTY {
		t.printDay(l.at.Local())
		up, width := "", t.OutWidth()
		if t.replacesLine(l, width) {
			up = "\x1b[A\x1b[K"
		}
		t.PrintLine("%s%s", up, t.layOut(l, width))
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
		t.day, t.partial = now, ""
		t.PrintLine("%s", t.ColourText(ui.Bold, now))
	}
}

func findOutcomeColour(outcome string) string {
	switch outcome {
	case "":
		return ""
	case client.TrafficOK, client.TrafficHanded:
		return ui.Green
	case client.TrafficHeld, client.TrafficSent, string(client.TaskAccepted):
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
		text += " thread " + strconv.Quote(e.Thread)
	}
	return text
}

// printPayload prints a payload on a line below its message.
func (t *tail) printPayload(before string, p wire.Payload) {
	if len(p) > 0 {
		t.PrintLine("%s%s", before, client.Line(string(client.JSON(p))))
	}
}

// formatTook returns a duration in about three digits.
func formatTook(d time.Duration) string {
	if d < time.Microsecond {
		return "<1µs"
	}
	unit := time.Microsecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return kinds.FormatDuration(d.Round(unit))
}
