package mcp

import (
	"cmp"
	"fmt"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
)

// taskParties says who a delegation is between, and whether somebody works on it.
type taskParties struct {
	ToAgent        string      `json:"to_agent,omitzero"`         // given: the agent of the peer that it is for; "": any
	FromAgent      string      `json:"from_agent,omitzero"`       // taken: the agent of the peer that gave it, if its name is a plain one and no role's
	Agent          string      `json:"agent,omitzero"`            // taken: the agent here that works on it, or has worked on it
	AgentAwaySince client.Time `json:"agent_away_since,omitzero"` // since when no agent of that name is attached; left out if one is attached
	Abandoned      bool        `json:"abandoned,omitzero"`        // given: it has ended only here
}

func findParties(t *client.Task) taskParties {
	p := taskParties{ToAgent: t.ToAgent, FromAgent: t.FromAgent, Agent: t.Agent, AgentAwaySince: t.AgentAwaySince, Abandoned: t.IsAbandoned()}
	if !client.IsPlainAgentName(p.ToAgent) {
		p.ToAgent = ""
	}
	if !client.IsPlainAgentName(p.FromAgent) || identity.IsRoleName(p.FromAgent) { // the peer chose it, and it must not speak to the model
		p.FromAgent = ""
	}
	return p
}

// nameThere returns the peer of a delegation, and the agent there if it is known.
func (p *taskParties) nameThere(peer string) string {
	if agent := cmp.Or(p.ToAgent, p.FromAgent); agent != "" {
		return peer + "/" + agent
	}
	return peer
}

// describeAway says that the agent here that works on a delegation is gone, and how long the daemon waits for
// it. It returns "" if the agent is here.
func (p *taskParties) describeAway(until client.Time) string {
	if p.AgentAwaySince.IsZero() {
		return ""
	}
	s := fmt.Sprintf("%s is not attached since %s", p.Agent, formatSecond(p.AgentAwaySince))
	if !until.IsZero() {
		s += ", and is waited for until " + formatSecond(until)
	}
	return s
}

func formatSecond(t client.Time) string { return t.UTC().Format(time.RFC3339) }

// abandonedText explains that a delegation was abandoned.
const abandonedText = " It was abandoned: it has ended only here, and the agent there may still work on it."
