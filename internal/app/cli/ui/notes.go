package ui

import (
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
)

// DescribeAgentAway says of an open delegation that the agent which has accepted it is not attached: "" if it
// is.
func (t *Terminal) DescribeAgentAway(agent string, since client.Time) string {
	if since.IsZero() {
		return ""
	}
	return client.Line(agent) + " is not attached since " + t.FormatClock(since.Time) + ": acpctl doctor"
}

// JoinNotes returns what a line says in brackets behind its text: "" if no note says anything.
func JoinNotes(notes ...string) string {
	notes = slices.DeleteFunc(notes, func(s string) bool { return s == "" })
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}
