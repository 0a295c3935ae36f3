package watch

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/wire"
)

func newWaitingCmd(f *frame.Frame) *cobra.Command {
	return &cobra.Command{
		Use:   "waiting [PEER[/AGENT]]",
		Short: "Show who waits for whom, and since when",
		Example: `  acpctl waiting
  acpctl waiting desk
  acpctl waiting desk/reviewer      an agent there
  acpctl waiting --json`,
		Long: `It lists the queries and delegations that are open now, the oldest first, at most 1,000. WHO waits for the one in the next
column: here/planner is an agent of this daemon, "a program here" one without a name. If the peer is not
connected or the agent not attached, that is said behind the text, or on a terminal below the row.

The calls that a call led to are listed below it: with └ if whoever asked has said so, with ┊ if acpctl mcp has guessed it.
With --json, "chain" is the name of the chain that a call belongs to, which is the same on each machine.

A delegation stays in the list until its outcome: acpctl tasks shows how far it has come, and acpctl cancel ends it. A query
ends with its answer or its deadline, or with ^C where it was asked. acpctl tail shows messages once they have an outcome.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := frame.CheckValuesNotEmpty(cmd, args); err != nil {
				return err
			}
			p := client.TrafficParams{Open: true, Limit: 1} // entries are not wanted
			agent, err := selectPeer(&p, args)
			if err != nil {
				return err
			}
			answer, err := f.Daemon.Traffic(cmd.Context(), &p)
			if err != nil {
				return err
			}
			open := slices.DeleteFunc(answer.Open, func(e client.TrafficEntry) bool { return agent != "" && findAgentThere(&e) != agent })
			if open == nil {
				open = []client.TrafficEntry{}
			}
			var peers []client.Peer
			if len(open) > 0 && !f.JSON {
				if peers, err = f.Daemon.Peers(cmd.Context()); err != nil {
					return err
				}
			}
			return f.PrintData(struct {
				Open     []client.TrafficEntry `json:"open"`
				OpenMore int                   `json:"open_more,omitzero"`
			}{open, answer.OpenMore}, func() {
				if len(open) == 0 && len(args) > 0 {
					f.PrintForPerson("nobody waits for %s, and nobody there waits for anybody here: acpctl waiting lists all", args[0])
					return
				}
				printWaiting(f, open, peers)
				if answer.OpenMore > 0 {
					f.Warn("%d more calls are open than have room in one answer: name a peer, as acpctl waiting PEER does", answer.OpenMore)
				}
			})
		},
	}
}

// printWaiting prints a table of open calls: for a person by chains, for a script the oldest first.
func printWaiting(f *frame.Frame, open []client.TrafficEntry, peers []client.Peer) {
	if len(open) == 0 {
		f.PrintForPerson("nobody waits: no query and no delegation is open")
		return
	}
	calls := joinChains(open, f.OutTTY)
	ids := make([]wire.MessageID, len(calls))
	for i, c := range calls {
		ids[i] = c.ID
	}
	shown := f.ShortenIDs(ids)
	rows := make([][]string, len(calls))
	for i, c := range calls {
		rows[i] = []string{f.FormatAge(c.At), c.indent() + findWho(c.TrafficEntry), findWhom(c.TrafficEntry), c.Kind, shown[i], ui.DashIfEmpty(c.Text)}
		if away := describeAway(f, peers, c.TrafficEntry); away != "" {
			rows[i] = append(rows[i], away)
		}
	}
	f.PrintTable([]string{"SINCE", "WHO", "WAITS FOR", "KIND", "ID", "TEXT"}, rows)
}

// describeAway says that the peer of a call or the agent here is away. It returns "" if both are there.
func describeAway(f *frame.Frame, peers []client.Peer, e *client.TrafficEntry) string {
	var notes []string
	i := slices.IndexFunc(peers, func(p client.Peer) bool { return p.ID == e.Peer })
	if i < 0 || peers[i].State != client.PeerConnected {
		note := "not connected" // the row tells which peer
		if i >= 0 && !peers[i].LastSeen.IsZero() && peers[i].LastSeen.Unix() > 0 {
			note += ", seen last " + f.FormatAge(peers[i].LastSeen.Time)
		}
		notes = append(notes, note)
	}
	if !e.AgentAwaySince.IsZero() {
		notes = append(notes, f.DescribeAgentAway(e.Agent, e.AgentAwaySince))
	}
	return strings.Join(notes, "; ")
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
