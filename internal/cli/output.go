package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
)

// print writes one JSON object on a line, the texts of payloads as they were written, but
// for what a terminal would obey or not show.
func (a *app) print(v any) error {
	line, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	_, err = a.out.Write(append(client.JSON(line), '\n'))
	return err
}

// say writes a line of data for a person.
func (a *app) say(format string, args ...any) { fmt.Fprintf(a.out, format+"\n", args...) }

// talk writes a line beside the data, where a person reads it.
func (a *app) talk(format string, args ...any) {
	if a.errTTY && !a.json {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

// colours are of words that say how something is.
var colours = map[string]string{
	string(client.PeerConnected): green, string(client.TaskCompleted): green, client.Handed: green,
	string(client.PeerPending): yellow, string(client.TaskUnknown): yellow, "overloaded": yellow,
	string(client.PeerBlocked): red, string(client.TaskFailed): red, string(client.TaskRefused): red, string(client.TaskExpired): red,
}

const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

func (a *app) paint(colour, s string) string {
	if !a.outTTY || !a.colours || colour == "" {
		return s
	}
	return colour + s + plain
}

// table prints rows: aligned below a head on a terminal, else separated by tabs.
func (a *app) table(head []string, rows [][]string) {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = client.Line(cell)
		}
	}
	if !a.outTTY {
		for _, row := range rows {
			a.say("%s", strings.Join(row, "\t"))
		}
		return
	}
	if len(rows) == 0 {
		a.talk("none")
		return
	}
	width := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(row []string, colour func(string) string) {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(a.paint(colour(cell), cell))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		a.say("%s", strings.TrimRight(b.String(), " "))
	}
	line(head, func(string) string { return bold })
	for _, row := range rows {
		line(row, func(cell string) string { return colours[cell] })
	}
}

// fields prints names and values, leaving out what is empty.
func (a *app) fields(rows ...[2]string) {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	for _, row := range rows {
		row[1] = client.Line(row[1])
		switch {
		case row[1] == "":
		case a.outTTY:
			a.say("%s%s  %s", a.paint(bold, row[0]), strings.Repeat(" ", width-len(row[0])), a.paint(colours[row[1]], row[1]))
		default:
			a.say("%s\t%s", row[0], row[1])
		}
	}
}

// content prints what a peer answered: its words and, below, its data.
func (a *app) content(words string, data jsontext.Value) {
	a.say("%s", strings.TrimRight(client.Text(words), "\n"))
	if len(data) == 0 || data.Kind() == 'n' {
		return
	}
	shape := (*jsontext.Value).Compact
	if a.outTTY {
		shape = (*jsontext.Value).Indent
	}
	data = data.Clone()
	if shape(&data) != nil {
		return
	}
	a.say("%s", client.Text(string(data)))
}

// moment shows a time to a person, in the local zone, which it names, or as RFC 3339 in UTC.
func (a *app) moment(t time.Time) string {
	switch {
	case t.IsZero() || t.Unix() == 0:
		return "-"
	case a.outTTY:
		return t.Local().Format("Jan _2 15:04:05 MST")
	}
	return t.UTC().Format(time.RFC3339)
}

// age shows a time as moment does, or to a person how long ago it was.
func (a *app) age(t time.Time) string {
	ago := time.Since(t)
	switch {
	case !a.outTTY || t.IsZero() || ago > 24*time.Hour:
		return a.moment(t)
	case ago < time.Second:
		return "now"
	case ago < time.Minute:
		return ago.Truncate(time.Second).String() + " ago"
	}
	return strings.TrimSuffix(ago.Truncate(time.Minute).String(), "0s") + " ago"
}

func micros(us uint64) time.Duration { return time.Duration(us) * time.Microsecond }

// millis shows a round trip like ping does.
func millis(us uint64) string { return fmt.Sprintf("%.3f ms", float64(us)/1000) }
