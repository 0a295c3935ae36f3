package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/internal/cli/ui"
)

func (a *app) newWaitingCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "waiting [PEER[/AGENT]]",
		Short: "Show who waits for whom, and since when",
		Example: `  acpctl waiting
  acpctl waiting desk
  acpctl waiting desk/reviewer      an agent there
  acpctl waiting --json`,
		Long: `Lists the queries and delegations that are open now, also those that began before, the
longest first, 1,000 at most: WHO waits for the one in the next column. "here" is this daemon, and
"here/planner" an agent of it. A delegation is there until its outcome: acpctl tasks shows
how far it has come. acpctl tail shows a message when it has its outcome.`,
		ValidArgsFunction: a.completeTrusted,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := frame.CheckValuesNotEmpty(cmd, args); err != nil {
				return err
			}
			p := client.TrafficParams{Open: true, Limit: 1} // entries are not wanted
			agent, err := selectPeer(&p, args)
			if err != nil {
				return err
			}
			answer, err := a.Daemon.Traffic(cmd.Context(), &p)
			if err != nil {
				return err
			}
			open := slices.DeleteFunc(answer.Open, func(e client.TrafficEntry) bool { return agent != "" && findAgentThere(&e) != agent })
			if open == nil {
				open = []client.TrafficEntry{}
			}
			return a.PrintData(struct {
				Open []client.TrafficEntry `json:"open"`
			}{open}, func() { a.printWaiting(a.noteAgentsAway(open)) })
		},
	}
}

func (a *app) completeTrusted(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.CompletePeers(cmd, args, begun, client.PeerConnected, client.PeerTrusted)
}

// printWaiting prints a table of open calls.
func (a *app) printWaiting(open []client.TrafficEntry) {
	if len(open) == 0 {
		a.PrintForPerson("nobody waits: no query and no delegation is open")
		return
	}
	var rows [][]string
	for i := range open {
		e := &open[i]
		there, here := joinAgent(formatPeerOf(e), findAgentThere(e)), joinAgent("here", e.FromAgent)
		who, whom := here, there
		if e.Direction == client.In {
			who, whom = there, joinAgent("here", e.Agent)
		}
		rows = append(rows, []string{a.FormatAge(e.At), who, whom, e.Kind, ui.DashIfEmpty(e.Text)})
	}
	a.PrintTable([]string{"SINCE", "WHO", "WAITS FOR", "KIND", "TEXT"}, rows)
}

// selectPeer has p select the messages of the peer that the first argument names, if there is one. Of
// PEER/AGENT it returns the agent: which side it is on, p cannot say.
func selectPeer(p *client.TrafficParams, args []string) (agent string, err error) {
	if len(args) == 0 {
		return "", nil
	}
	name, agent, named := strings.Cut(args[0], "/")
	if name == "" || named && agent == "" {
		return "", frame.UsageErrorf("PEER: %.64q: expected a peer, or PEER/AGENT", args[0])
	}
	p.Peers = []string{name}
	if named && len(p.Agents) == 0 {
		p.Agents = []string{agent}
	}
	return agent, nil
}

// findAgentThere returns the agent of the peer, "" if it is not known.
func findAgentThere(e *client.TrafficEntry) string {
	if e.Direction == client.In {
		return e.FromAgent
	}
	return e.Agent
}

// formatPeerOf returns the name of a message's peer.
func formatPeerOf(e *client.TrafficEntry) string { return cmp.Or(e.Name, e.Peer.Label()) }

// joinAgent adds an agent, if it is known, to the name of its daemon.
func joinAgent(daemon, agent string) string {
	if agent == "" {
		return daemon
	}
	return daemon + "/" + agent
}
