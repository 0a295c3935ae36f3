package cli

import (
	"time"

	"github.com/acpd/acpd/client"
)

// describeAgentAway returns what a line about an open delegation says after its text, if the agent that
// has accepted it is not attached: "" if it is.
func (a *app) describeAgentAway(agent string, since client.Time) string {
	if since.IsZero() {
		return ""
	}
	at := a.FormatTime(since.Time)
	if a.OutTTY && time.Since(since.Time) < 24*time.Hour {
		at = since.Local().Format("15:04:05")
	}
	return " (" + client.Line(agent) + " is not attached since " + at + ": acpctl doctor)"
}
