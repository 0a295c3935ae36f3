package cli

import "github.com/acpd/acpd/client"

// describeAgentAway returns what a line about an open delegation says after its text, if the agent that
// has accepted it is not attached: "" if one is.
func (a *app) describeAgentAway(agent string, since client.Time) string {
	if since.IsZero() {
		return ""
	}
	return " (" + client.Line(agent) + " is not attached since " + a.FormatTime(since.Time) + ": acpctl doctor)"
}
