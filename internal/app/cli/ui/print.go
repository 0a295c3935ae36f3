package ui

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
)

// PrintJSON writes v as one line of JSON. The texts of payloads stay as they were written,
// without what a terminal would obey or not show.
func (t *Terminal) PrintJSON(v any) error {
	line, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	_, err = t.Out.Write(append(client.JSON(line), '\n'))
	return err
}

// PrintData writes v with --json, as [Terminal.PrintJSON] does; else it calls printText.
func (t *Terminal) PrintData(v any, printText func()) error {
	if t.JSON {
		return t.PrintJSON(v)
	}
	printText()
	return nil
}

// PrintLine writes a line of data.
func (t *Terminal) PrintLine(format string, args ...any) { fmt.Fprintf(t.Out, format+"\n", args...) }

// Tell writes a line to standard error, whoever reads it. A terminal breaks it between words.
func (t *Terminal) Tell(format string, args ...any) error {
	_, err := fmt.Fprintln(t.Err, t.WrapTalk(fmt.Sprintf(format, args...)))
	return err
}

// TellLine writes text as one line as Tell does.
func (t *Terminal) TellLine(text string) { t.Tell("%s", client.Line(text)) }

// PrintForPerson writes a line as Tell does, if standard error is a terminal.
func (t *Terminal) PrintForPerson(format string, args ...any) {
	if t.ErrTTY && !t.JSON {
		t.Tell(format, args...)
	}
}

// stateColours maps words that name a state to colours.
var stateColours = map[string]string{
	string(client.PeerConnected): Green, string(client.TaskCompleted): Green, string(client.Handed): Green,
	string(client.PeerPending): Yellow, string(client.TaskUnknown): Yellow, string(client.TaskKept): Yellow, string(client.DaemonOverloaded): Yellow,
	string(client.RelayUp): Green, string(client.RelayConnecting): Yellow, string(client.RelayDown): Red,
	string(client.PeerBlocked): Red, string(client.TaskFailed): Red, string(client.TaskRefused): Red, string(client.TaskExpired): Red, "declined": Red,
}

const (
	Bold   = "\x1b[1m"
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Plain  = "\x1b[0m"
)

// ColourText returns s in a colour, if the data is for a terminal with colours.
func (t *Terminal) ColourText(colour, s string) string {
	if !t.OutTTY || !t.Colours || colour == "" || s == "" {
		return s
	}
	return colour + s + Plain
}

// ColourState returns a word in the colour of the state that it names, if it names one.
func (t *Terminal) ColourState(word string) string { return t.ColourText(stateColours[word], word) }

// PrintList prints list with --json, else the rows for it, as [Terminal.PrintTable]
// does.
func (t *Terminal) PrintList(list any, head []string, rows [][]string) error {
	return t.PrintData(list, func() { t.PrintTable(head, rows) })
}

// PrintFields prints names and values, without empty values.
func (t *Terminal) PrintFields(rows ...[2]string) {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	for _, row := range rows {
		row[1] = client.Line(row[1])
		switch {
		case row[1] == "":
		case t.OutTTY:
			before := row[0] + strings.Repeat(" ", width-len(row[0])+columnGap)
			value := WrapBehind(before, row[1], t.OutWidth())[len(before):]
			t.PrintLine("%s%s%s", t.ColourText(Bold, row[0]), before[len(row[0]):], t.ColourState(value))
		default:
			t.PrintLine("%s\t%s", row[0], row[1])
		}
	}
}

// PrintForModel prints a peer's message as data for a model.
func (t *Terminal) PrintForModel(m client.PeerMessage) {
	fmt.Fprint(t.Out, client.RenderPeerMessage(m))
}

// PrintAnswer prints what FormatAnswer returns.
func (t *Terminal) PrintAnswer(words string, data jsontext.Value) {
	t.PrintLine("%s", t.FormatAnswer(words, data))
}

// FormatAnswer returns a peer's answer: the words and, below them, the data.
func (t *Terminal) FormatAnswer(words string, data jsontext.Value) string {
	words = strings.TrimRight(client.Text(words), "\n")
	if len(data) == 0 || data.Kind() == 'n' {
		return words
	}
	shape := (*jsontext.Value).Compact
	if t.OutTTY {
		shape = (*jsontext.Value).Indent
	}
	data = data.Clone()
	if shape(&data) != nil {
		return words
	}
	return words + "\n" + string(client.JSON(data))
}
