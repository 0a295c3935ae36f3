package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// peerAgents is what a connected peer says of its agents.
type peerAgents struct {
	ID     identity.ID          `json:"id"`
	Name   string               `json:"name"`
	Agents []kinds.AgentDetails `json:"agents"`         // answers is empty where the peer does not say
	Error  *kinds.Error         `json:"error,omitzero"` // why it says nothing
}

// agentsPatience bounds how long all peers together are asked for their agents.
const agentsPatience = 2 * time.Second

// askPeersForAgents asks the connected peers what their agents are.
func (a *app) askPeersForAgents(ctx context.Context, peers []client.Peer) []peerAgents {
	all := []peerAgents{}
	for _, said := range a.askConnected(ctx, peers, true, agentsPatience) {
		p, err := peerAgents{ID: said.peer.ID, Name: said.peer.Name, Agents: []kinds.AgentDetails{}}, said.err
		var c *kinds.Capabilities
		if err == nil {
			c, err = kinds.ParsePayload[kinds.Capabilities](said.answer.Payload)
		}
		if err != nil {
			p.Error = kinds.AsError(err)
		} else {
			p.Agents = append(p.Agents, c.ListAgents()...)
		}
		all = append(all, p)
	}
	return all
}

// printPeerAgents prints a table of the agents of peers.
func (a *app) printPeerAgents(peers []peerAgents) {
	var rows [][]string
	for _, p := range peers {
		switch {
		case p.Error != nil:
			rows = append(rows, []string{p.Name, "?", "it does not say: " + string(p.Error.Code)})
		case len(p.Agents) == 0:
			rows = append(rows, []string{p.Name, "-", "no agents now"})
		}
		plain := slices.DeleteFunc(slices.Clone(p.Agents), func(g kinds.AgentDetails) bool { return !client.IsPlainAgentName(g.Name) })
		shown := plain[:min(len(plain), kinds.MaxDetails)]
		for _, g := range shown {
			rows = append(rows, []string{p.Name + "/" + g.Name, formatAnswers(g.Answers), quoteAbout(g.About)})
		}
		if len(plain) < len(p.Agents) { // names that no agent can have
			rows = append(rows, []string{p.Name + "/?", "?", ""})
		}
		if more := len(plain) - len(shown); more > 0 {
			rows = append(rows, []string{p.Name, "?", fmt.Sprintf("%d more agents: --json has all", more)})
		}
	}
	if len(rows) == 0 {
		return
	}
	if a.OutTTY {
		a.PrintLine("")
	}
	a.PrintTable([]string{"AT PEERS", "ANSWERS", "ABOUT"}, rows)
}

// formatAnswers returns when an agent answers, in words for a person.
func formatAnswers(answers string) string {
	switch answers {
	case kinds.AnswersNow:
		return "now"
	case kinds.AnswersWakes:
		return "wakes for you"
	case kinds.AnswersTurn:
		return "at its next turn"
	}
	return "?"
}

// quoteAbout returns what an agent says that it is for: in quotes, since they are its words.
func quoteAbout(about string) string {
	if about == "" {
		return ""
	}
	return `"` + strings.ReplaceAll(client.Line(about), `"`, "'") + `"`
}

// countAgents returns how many agents each connected peer says it has, by its id.
func (a *app) countAgents(ctx context.Context, peers []client.Peer) map[identity.ID]string {
	counts := make(map[identity.ID]string)
	for _, p := range a.askPeersForAgents(ctx, peers) {
		counts[p.ID] = strconv.Itoa(len(p.Agents))
		if p.Error != nil {
			counts[p.ID] = "?"
		}
	}
	return counts
}
