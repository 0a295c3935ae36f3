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
	AgentAwaySince client.Time `json:"agent_away_since,omitzero"` // since when none of that name is attached; null, and left out: one is
	Abandoned      bool        `json:"abandoned,omitzero"`        // given: it has ended here alone
}

func findParties(t *client.Task) taskParties {
	p := taskParties{ToAgent: t.ToAgent, FromAgent: t.FromAgent, Agent: t.Agent, AgentAwaySince: t.AgentAwaySince, Abandoned: t.IsAbandoned()}
	if !client.IsPlainAgentName(p.ToAgent) {
		p.ToAgent = ""
	}
	if !client.IsPlainAgentName(p.FromAgent) || identity.IsRoleName(p.FromAgent) { // the peer's word, which must not speak to the model
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

// describeAway says that the agent here that works on a delegation is gone, and until when it may come back; ""
// if it is there.
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

// abandonedText says what it means that a delegation was abandoned.
const abandonedText = " It was abandoned: it has ended only here, and the agent there may still work on it."
