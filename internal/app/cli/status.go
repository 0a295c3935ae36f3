package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/meet"
	"github.com/acpd/acpd/internal/app/cli/operate"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

func (a *app) newStatusCmd() *cobra.Command {
	var patience time.Duration
	var budget, check, quiet bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the own daemon is doing",
		Example: `  acpctl status
  acpctl status --wait 5s           wait for a daemon that is starting
  acpctl status --budget            what peers may cost it, and what they do
  acpctl status --check --quiet     for a script or a container: the exit code says it
  acpctl status --json`,
		Long: `It shows the daemon, its agents, how many peers are connected, and how many delegations are open, given and taken.

--budget shows what peers may use, in the columns ROW (what is counted), PEER (who, or all together), HELD (what is used now),
BOUND (what may be used) and REFUSED (how often more was refused).

--check says in one line whether the daemon is ready: its accept loops and the writer of its store run, its UDP socket answers,
and its disks have room for what peers send. It takes at most 2 s. The exit code is 0 if the daemon is ready, 1 if it is not,
and 6 if no daemon answers.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			switch {
			case patience < 0:
				return frame.UsageErrorf("--wait: expected a duration like 5s")
			case quiet && !check:
				return frame.UsageErrorf("--quiet is for --check: add that, or leave it out")
			}
			if names := frame.ListGiven(cmd, "budget", "wait", "check"); len(names) > 1 {
				return frame.UsageErrorf("--%s and --%s: leave one of them out", names[0], names[1])
			}
			switch {
			case budget:
				return operate.ShowBudget(ctx, a.Frame)
			case check:
				return a.checkStatus(ctx, quiet)
			}
			var s *client.Status
			end := time.Now().Add(patience)
			err := frame.RetryWhile(ctx, patience, 200*time.Millisecond, isDaemonAbsent, func() (err error) {
				if patience > 0 { // a daemon that is there and silent has no longer than one that is not
					a.Daemon.Patience = min(frame.DaemonPatience, max(time.Until(end), time.Millisecond))
				}
				s, err = a.Daemon.Status(ctx)
				return err
			})
			if err != nil {
				return err
			}
			return a.PrintData(s, func() { a.PrintFields(formatStatus(s)...) })
		},
	}
	cmd.Flags().DurationVar(&patience, "wait", 0, "how long to wait for the daemon")
	cmd.Flags().BoolVar(&check, "check", false, "say whether the daemon is ready")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "with --check, say nothing if it is")
	cmd.Flags().BoolVar(&budget, "budget", false, "show what peers may cost, what they hold, and how often they were refused more")
	return cmd
}

func isDaemonAbsent(err error) bool {
	e, ok := errors.AsType[*kinds.Error](err)
	return ok && e.Code == kinds.DaemonUnavailable && e.Retryable
}

// formatStatus returns the status as names and values.
func formatStatus(s *client.Status) [][2]string {
	rows := append(meet.FormatIdentity(&s.Whoami),
		[2]string{"state", string(s.State)},
		[2]string{"peers", strconv.Itoa(s.PeersConnected) + " connected"},
		[2]string{"delegations", formatOpenTasks(s)},
		[2]string{"in", formatCounts(s.Messages.In)},
		[2]string{"out", formatCounts(s.Messages.Out)},
	)
	for _, g := range s.Agents {
		what := fmt.Sprintf("%s: %d of %d active", client.Line(g.Name), g.Active, g.MaxConcurrent)
		if len(g.Domains) > 0 {
			what += ", " + client.Line(strings.Join(g.Domains, " "))
		}
		rows = append(rows, [2]string{"agent", what})
	}
	for i := range s.Relays {
		rows = append(rows, [2]string{"relay", formatRelay(&s.Relays[i])})
	}
	rows = append(rows, formatUnready(s)...)
	for _, w := range s.Warnings {
		rows = append(rows, [2]string{"warning", client.Line(w)})
	}
	return rows
}

// formatRelay returns how the daemon stands to a relay, and what is wrong with it.
func formatRelay(r *client.Relay) string {
	text := client.Line(r.Name) + ": " + string(r.State)
	if !r.Since.IsZero() {
		text += " since " + r.Since.UTC().Format(time.RFC3339)
	}
	if r.State == client.RelayUp {
		if r.Server != "" {
			text += ", " + client.Line(r.Server)
		}
		if r.RTTUS > 0 {
			text += ", " + ui.FormatMilliseconds(r.RTTUS)
		}
	}
	if r.Error != "" {
		text += ": " + client.Line(r.Error)
	}
	if r.Dropped > 0 {
		text += fmt.Sprintf("; packets dropped: %d", r.Dropped)
	}
	if r.Clone {
		text += "; another process uses it with this daemon's identity: stop one of the two"
	}
	return text
}

// formatOpenTasks returns how many delegations are open, and that some wait for an answer.
func formatOpenTasks(s *client.Status) string {
	open := fmt.Sprintf("%d given, %d taken", s.TasksGiven, s.TasksTaken)
	if s.QuestionsOpen > 0 {
		open += fmt.Sprintf("; waiting for an answer: %d, see acpctl tasks", s.QuestionsOpen)
	}
	return open
}

func formatCounts(by map[string]uint64) string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		if by[kind] > 0 {
			all = append(all, fmt.Sprintf("%d %s", by[kind], client.Line(kind)))
		}
	}
	return strings.Join(all, ", ")
}

// formatUnready returns what keeps a daemon from its work, without what a warning says too.
func formatUnready(s *client.Status) (rows [][2]string) {
	said := make(map[string]bool)
	for _, w := range s.Warnings {
		said[w] = true
	}
	for _, why := range s.Unready {
		if !said[why] {
			rows = append(rows, [2]string{"not ready", client.Line(why)})
		}
	}
	return rows
}

// checkPatience bounds how long status --check waits for the daemon.
const checkPatience = 2 * time.Second

// checkStatus prints in one line whether the daemon is ready, with quiet only if it is not. The exit
// code is [frame.ExitLocal] if it is not.
func (a *app) checkStatus(ctx context.Context, quiet bool) error {
	a.Daemon.Patience = checkPatience
	s, err := a.Daemon.Status(ctx)
	if err != nil {
		return err
	}
	if !s.Ready && len(s.Unready) == 0 {
		return kinds.Errorf(kinds.Internal, "acpd %s does not say whether it is ready: update it", client.Line(s.Version))
	}
	if s.Ready && quiet {
		return nil
	}
	err = a.PrintData(struct {
		Ready   bool     `json:"ready"`
		Unready []string `json:"unready"`
	}{s.Ready, s.Unready}, func() {
		if s.Ready {
			a.PrintLine("ready")
			return
		}
		a.Warn("not ready: %s", strings.Join(s.Unready, "; "))
	})
	if err == nil && !s.Ready {
		err = frame.Exit(frame.ExitLocal)
	}
	return err
}
