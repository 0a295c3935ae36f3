package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/acpd/acpd/client"
)

// describeAgentAway says of an open delegation that the agent which has accepted it is not attached: "" if it
// is.
func (a *app) describeAgentAway(agent string, since client.Time) string {
	if since.IsZero() {
		return ""
	}
	return client.Line(agent) + " is not attached since " + a.FormatClock(since.Time) + ": acpctl doctor"
}

// setApart returns what somebody has said so that it cannot look like a note behind it: in quotes if it has
// brackets or quotes.
func setApart(text string) string {
	if strings.ContainsAny(text, `("`) {
		return strconv.Quote(text)
	}
	return text
}

// joinNotes returns what a line says in brackets behind its text: "" if no note says anything.
func joinNotes(notes ...string) string {
	notes = slices.DeleteFunc(notes, func(s string) bool { return s == "" })
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}
