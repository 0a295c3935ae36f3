package cli

import (
	"slices"

	"github.com/acpd/acpd/client"
)

// describeAgentAway returns what a line about an open delegation says after its text, if the agent that
// has accepted it is not attached: "" if one is.
func (a *app) describeAgentAway(agent string, since client.Time) string {
	if since.IsZero() {
		return ""
	}
	return " (" + client.Line(agent) + " is not attached since " + a.FormatTime(since.Time) + ": acpctl doctor)"
}

// noteAgentsAway returns open calls with texts that say so where an agent is not attached.
func (a *app) noteAgentsAway(open []client.TrafficEntry) []client.TrafficEntry {
	noted := slices.Clone(open)
	for i := range noted {
		noted[i].Text += a.describeAgentAway(noted[i].Agent, noted[i].AgentAwaySince)
	}
	return noted
}
