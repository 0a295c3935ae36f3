package cli

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/ui"
	"github.com/acpd/acpd/wire"
)

// The cells that columns of a tail take on a terminal.
const (
	tailHere    = 10 // the agent here
	tailThere   = 20 // the peer, and the agent there
	tailKind    = 8
	tailOutcome = 11
	tailTook    = 9
	tailText    = 20 // at least
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
		l := &tailLine{at: i.at, sign: "·", there: client.Line(e.Name), kind: client.Line(string(e.Type)), text: describeDetails(e.Details)}
		if l.there == "" && !e.Peer.IsZero() {
			l.there = e.Peer.Label()
		}
		t.printLine(l)
	default:
		e := i.entry
		t.printLine(newEntryLine(e, i.at))
		t.printPayload("  ", e.Payload)
		t.printPayload("  ⇒ ", e.AnswerPayload)
	}
}

func newEntryLine(e *client.TrafficEntry, end time.Time) *tailLine {
	l := &tailLine{
		at: end, here: e.FromAgent, sign: "→", there: e.Agent, kind: e.Kind, text: e.Text, answer: e.Answer,
		outcome: e.Outcome, took: formatTook(time.Duration(e.TookUS) * time.Microsecond),
	}
	if e.Direction == client.In {
		l.here, l.sign, l.there = e.Agent, "←", e.FromAgent
	}
	peer := cmp.Or(e.Name, e.Peer.Label())
	if l.there != "" {
		peer += "/" + l.there
	}
	l.there = peer
	if e.Topic != "" {
		l.text = strings.TrimSuffix(e.Topic+" "+e.Text, " ")
	}
	for _, text := range []*string{&l.here, &l.there, &l.kind, &l.text, &l.answer, &l.outcome} {
		*text = client.Line(*text)
	}
	return l
}

// printLine prints a line: on a terminal in columns and as wide as that, else with tabs between the
// fields.
func (t *tail) printLine(l *tailLine) {
	if !t.OutTTY {
		fields := []string{l.at.UTC().Format("2006-01-02T15:04:05.000Z"), l.here, l.sign, l.there, l.kind, l.text, l.answer, l.outcome, l.took}
		for i := range fields {
			fields[i] = ui.DashIfEmpty(fields[i])
		}
		t.PrintLine("%s", strings.Join(fields, "\t"))
		return
	}
	text := l.text
	if l.answer != "" {
		text = strings.TrimPrefix(text+" ⇒ "+l.answer, " ")
	}
	at := l.at.Local().Format("15:04:05.000")
	head := len(at) + len(" ") + tailHere + len(" ? ") + tailThere + len(" ") + tailKind + len(" ")
	switch width := t.OutWidth(); {
	case width == math.MaxInt:
	default:
		text = ui.FitCells(text, max(width-head-len("  ")-tailOutcome-tailTook, tailText))
	}
	t.PrintLine("%s %s %s %s %s %s %s %*s", at, ui.FitCells(l.here, tailHere), l.sign, t.ColourText(ui.Bold, ui.FitCells(l.there, tailThere)),
		ui.FitCells(l.kind, tailKind), text, t.colourOutcome(l.outcome), tailTook, l.took)
}

func (t *tail) colourOutcome(outcome string) string {
	shown := ui.FitCells(outcome, tailOutcome)
	switch outcome {
	case "":
		return shown
	case client.TrafficOK, client.TrafficHanded:
		return t.ColourText(ui.Green, shown)
	case client.TrafficHeld, client.TrafficSent:
		return t.ColourText(ui.Yellow, shown)
	}
	return t.ColourText(ui.Red, shown)
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

// describeDetails returns the details of an event as names and values on one line.
func describeDetails(details jsontext.Value) string {
	var words []string
	dec := jsontext.NewDecoder(bytes.NewReader(details))
	if _, err := dec.ReadToken(); err != nil {
		return ""
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			break
		}
		words = append(words, name.String())
		value, err := dec.ReadValue()
		if err != nil {
			break
		}
		text := string(value)
		if unquoted, err := jsontext.AppendUnquote(nil, value); value.Kind() == '"' && err == nil {
			text = string(unquoted)
		}
		words = append(words, text)
	}
	return client.Line(strings.Join(words, " "))
}
