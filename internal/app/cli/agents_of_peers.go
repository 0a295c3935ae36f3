package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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

// Bounds of asking peers for their agents.
const (
	agentsPatience = 2 * time.Second // for all of them
	agentsAtOnce   = 64              // peers that are asked at the same time
)

// askPeersForAgents asks the connected peers what their agents are.
func (a *app) askPeersForAgents(ctx context.Context, peers []client.Peer) []peerAgents {
	ctx, cancel := context.WithTimeout(ctx, agentsPatience)
	defer cancel()
	all := []peerAgents{}
	for _, p := range peers {
		if p.State == client.PeerConnected {
			all = append(all, peerAgents{ID: p.ID, Name: p.Name, Agents: []kinds.AgentDetails{}})
		}
	}
	var g errgroup.Group
	g.SetLimit(agentsAtOnce)
	for i := range all {
		g.Go(func() error {
			a.askForAgents(ctx, &all[i])
			return nil
		})
	}
	g.Wait()
	return all
}

func (a *app) askForAgents(ctx context.Context, p *peerAgents) {
	answer, err := a.Daemon.Discover(ctx, client.DiscoverParams{To: p.ID.String(), Fresh: true, TimeoutMS: uint64(agentsPatience.Milliseconds())})
	if err != nil && ctx.Err() != nil {
		err = kinds.Errorf(kinds.Timeout, "it has not said in %s what its agents are", agentsPatience)
	}
	var c *kinds.Capabilities
	if err == nil {
		c, err = kinds.ParsePayload[kinds.Capabilities](answer.Payload)
	}
	if err != nil {
		p.Error = kinds.AsError(err)
		return
	}
	p.Agents = append(p.Agents, c.ListAgents()...)
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
