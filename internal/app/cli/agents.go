package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

func (a *app) newAgentsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List the agents here and at connected peers: when they answer, and who woke those here",
		Example: `  acpctl agents
  acpctl agents mute claude 1h      nothing wakes it
  acpctl agents --json`,
		Long: `Lists whom others can ask here, and below them whom you can ask at connected peers, as those
say: an agent answers now; it is a session that your question wakes; or the question waits for its
next turn, or for its owner's yes, if that one is asked. What an agent says that it is for stands last, in quotes. "?"
stands for what an older peer does not say.

Of the agents here, PROGRAM is that of a session, which
answers only while it has a turn. HOUR and DAY say how many turns of it peers have caused
in the last hour and the last 24 hours: 20 and 100 at most, half of them one peer, unless
turns under agents in config.yaml says otherwise. BY says which peers those were, and STATE
until when the turns of one are used up.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if frame.FirstOrEmpty(args) == "unmute" {
				return fmt.Errorf("unknown verb \"unmute\": a mute ends with acpctl agents mute %s 0s", cmp.Or(strings.Join(args[1:], " "), "NAME"))
			}
			return frame.NamedArgs()(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
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
