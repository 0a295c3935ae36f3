package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

func (a *app) newAgentsCmd() *cobra.Command {
	var spent bool
	var days int
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List the agents here and at connected peers: when they answer, and who woke those here",
		Example: `  acpctl agents
  acpctl agents mute claude 1h      nothing wakes it
  acpctl agents --json`,
		Long: `Lists whom others can ask here, and below them whom you can ask at connected peers, as those
say: an agent answers now; it is a session that your question wakes; or the question waits for its
next turn, or earlier, if its owner is asked and says yes. What an agent says that it is for stands last, in quotes. "?"
stands for what an older peer does not say.

Of the agents here, PROGRAM is that of a session, which
answers only while it has a turn. HOUR and DAY say how many turns of it peers have caused
in the last hour and the last 24 hours: 20 and 100 at most, half of them one peer, unless
turns under agents in config.yaml says otherwise. BY says which peers those were, and STATE
until when the turns of one are used up.`,
		Args: frame.NamedArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			switch {
			case spent:
				return a.showSpent(ctx, days)
			case cmd.Flags().Changed("days"):
				return frame.UsageErrorf("--days is for --spent: give that too, or leave it out")
			}
			agents, err := a.Daemon.Agents(ctx)
			if err != nil {
				return err
			}
			peers, err := a.Daemon.Peers(ctx)
			if err != nil {
				return err
			}
			there := a.askPeersForAgents(ctx, peers)
			var rows [][]string
			for _, g := range agents {
				program, hour, day, by, state := "-", "-", "-", "-", fmt.Sprintf("%d of %d under way", g.Active, g.MaxConcurrent)
				if g.Session != nil {
					program = strings.TrimSpace(g.Session.Harness + " " + g.Session.Version)
				}
				if w := g.Woken; w != nil {
					hour, day, by = fmt.Sprint(w.Hour), fmt.Sprint(w.Day), formatWakers(w)
					state = a.formatWaking(&g, state)
				}
				if g.About != "" {
					state += ", " + quoteAbout(g.About)
				}
				row := []string{g.Name, ui.DashIfEmpty(program), a.FormatAge(g.Since), hour, day, by, state}
				if g.Session != nil && g.Session.Unwakeable != "" {
					row = append(row, "cannot be woken: "+g.Session.Unwakeable)
				}
				rows = append(rows, row)
			}
			all := struct {
				client.Agents
				Peers []peerAgents `json:"peers"`
			}{client.Agents{Agents: agents}, there}
			return a.PrintData(all, func() {
				a.PrintTable([]string{"NAME", "PROGRAM", "SINCE", "HOUR", "DAY", "BY", "STATE"}, rows)
				if len(rows) == 0 {
					a.PrintForPerson("No agent is attached here. acpctl setup connects Claude Code, Codex or OpenCode; acpctl serve --help shows how a program of yours answers.")
				}
				a.printPeerAgents(there)
			})
		},
	}
	cmd.Flags().BoolVar(&spent, "spent", false, "instead, what headless runs of agent programs have cost, and what they may cost a day")
	cmd.Flags().IntVar(&days, "days", 1, "with --spent: how many days back, today among them")
	cmd.AddCommand(a.newMuteAgentCmd())
	return cmd
}

// formatWakers returns which peers woke a session in the last day, and how often.
func formatWakers(w *client.Woken) string {
	var by []string
	for _, one := range w.By {
		by = append(by, fmt.Sprintf("%s %d", one.Name, one.Day))
	}
	return ui.DashIfEmpty(strings.Join(by, ", "))
}

// formatWaking adds to the state of a session what keeps messages from waking it.
func (a *app) formatWaking(g *client.AgentState, state string) string {
	w := g.Woken
	if s := g.Session; s != nil {
		if newer := harness.NewerThanTested(s.Harness, s.Version); newer != "" {
			state += ", " + newer
		}
		if s.Asks != "" {
			state += ", " + s.Asks + " asks its user"
		}
	}
	if w.Refused != "" {
		state += ", not woken: " + w.Refused
	}
	for _, by := range w.By {
		if !by.UsedUpUntil.IsZero() {
			state += ", turns of " + by.Name + " used up until " + a.FormatTime(by.UsedUpUntil.Time)
		}
	}
	if w.Waiting > 0 {
		state += fmt.Sprintf(", %d to wake it", w.Waiting)
	}
	if w.Approvals > 0 {
		state += fmt.Sprintf(", %d for acpctl approvals", w.Approvals)
	}
	if !w.MutedUntil.IsZero() {
		state += ", muted until " + a.FormatTime(w.MutedUntil.Time)
	}
	return state
}

func (a *app) newMuteAgentCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "mute NAME [DURATION]",
		Short: "Keep anything from waking a session for a time",
		Example: `  acpctl agents mute claude
  acpctl agents mute claude 8h
  acpctl agents mute claude 0s      it may be woken again`,
		Long: `Nothing wakes the session for that time, 1h unless DURATION says otherwise, at most 720h:
what comes for it waits for its next turn. A restart of acpd does not end it.`,
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			d := time.Hour
			if len(args) > 1 {
				var err error
				if d, err = time.ParseDuration(args[1]); err != nil || d < 0 || d > client.MaxMute || d%time.Second != 0 {
					return frame.UsageErrorf("DURATION: expected whole seconds from 0s to 720h, like 90s or 1h")
				}
			}
			muted, err := a.Daemon.MuteAgent(cmd.Context(), client.MuteAgentParams{Name: args[0], Secs: uint64(d / time.Second)})
			if err != nil {
				return err
			}
			return a.PrintData(muted, func() {
				if muted.Until.IsZero() {
					a.PrintLine("%s may be woken", client.Line(muted.Name))
					return
				}
				a.PrintLine("%s is muted until %s", client.Line(muted.Name), a.FormatTime(muted.Until.Time))
			})
		},
	}
}

// showSpent prints what headless runs have cost on the last days, and what they may cost today.
func (a *app) showSpent(ctx context.Context, days int) error {
	if days < 1 || days > 31 {
		return frame.UsageErrorf("--days: %d: expected a number from 1 to 31", days)
	}
	spent, err := a.Daemon.Spent(ctx, client.SpentParams{Days: days})
	if err != nil {
		return err
	}
	var lines [][]string
	for _, r := range spent.Rows {
		lines = append(lines, []string{r.Day, client.Line(r.Name), r.Profile, strconv.FormatUint(r.Runs, 10), strconv.FormatUint(r.Tokens, 10), fmt.Sprintf("%.2f", r.Cost)})
	}
	l := spent.Limits
	most := strconv.FormatUint
	lines = append(lines, []string{"a day", "(each)", "(all)", most(l.Runs, 10), most(l.Tokens, 10), fmt.Sprintf("%.2f", l.Cost)},
		[]string{"a day", "(all)", "(all)", "-", "-", fmt.Sprintf("%.2f", l.CostAll)})
	return a.PrintList(spent, []string{"DAY", "PEER", "PROFILE", "RUNS", "TOKENS", "USD"}, lines)
}
