package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
)

// endTime is longer than a daemon takes to end when it has drained: 5 s for connections, and the
// disk.
const endTime = 15 * time.Second

func (v *verbs) newDrainCmd() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Let the daemon finish what is under way, and end it",
		Example: `  acpctl drain
  acpctl drain --timeout 2m`,
		Long: `From now on the daemon takes no new work: peers and programs get the answer to try again later
here, but for what belongs to work that is under way. It waits until its agents have done the
queries and delegations on which they work, and until calls to peers have returned and files on
their way have come. What is still open is told on standard error while it waits. Then the daemon
ends with exit status 0, so that a service manager which starts it again on failure leaves it down.

The exit code is 0 if all has ended, and 3 if something was open when --timeout was over: the
daemon then ends all the same. Whoever interrupts this command does not stop the drain.
Delegations whose agents are not attached, held messages and mail wait for the next start.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ms, err := frame.ReadMilliseconds(cmd, "timeout", timeout, client.MaxDrain)
			if err != nil {
				return err
			}
			return v.drain(cmd.Context(), client.DrainParams{TimeoutMS: ms})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait for what is open, at most 24h")
	return cmd
}

func (v *verbs) drain(ctx context.Context, p client.DrainParams) error {
	dir, err := v.FindStateDir()
	if err != nil {
		return err
	}
	drainer := statedir.FindHolder(dir)
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		v.tellOpenWork(watching)
	}()
	drained, err := v.Daemon.Drain(ctx, p)
	stop()
	<-watched
	if ctx.Err() != nil {
		return frame.WithHint(ctx.Err(), "the daemon still drains, and ends then: acpctl status shows until when")
	}
	if err != nil {
		return err
	}
	v.Daemon.Close() // for which the daemon waits
	if err := v.awaitEnd(ctx, dir, drainer); err != nil {
		return err
	}
	v.SetDoneNote("the daemon has ended")
	err = v.PrintData(drained, func() {
		if drained.AllEnded {
			v.PrintLine("all has ended, and so has the daemon")
			return
		}
		v.PrintLine("the daemon has ended, while this was open: %s", formatOpenWork(drained.Open))
	})
	if err == nil && !drained.AllEnded {
		return frame.Exit(frame.ExitTimeout)
	}
	return err
}

// tellOpenWork tells on standard error what is open, whenever that changes, until ctx ends.
func (v *verbs) tellOpenWork(ctx context.Context) {
	const pause = 500 * time.Millisecond
	told := ""
	for pace.Sleep(ctx, pause) == nil {
		s, err := v.Daemon.Status(ctx)
		if err != nil || s.Drain == nil {
			continue
		}
		open := formatOpenWork(s.Drain.Open)
		if open != "" && open != told {
			v.Tell("open: %s (until %s)", open, v.FormatTime(s.Drain.Until))
		}
		told = open
	}
}

func formatOpenWork(open []client.OpenWork) string {
	var all []string
	for _, o := range open {
		who := "calls and files"
		if o.Agent != "" {
			who = "agent " + client.Line(o.Agent)
		}
		all = append(all, fmt.Sprintf("%s: %d", who, o.Count))
	}
	return strings.Join(all, ", ")
}

// awaitEnd waits until no daemon answers, nor has the state directory dir: then a restore may begin,
// or another acpd. If another process than the drainer has it, a service manager was quicker.
func (v *verbs) awaitEnd(ctx context.Context, dir string, drainer *statedir.HeldError) error {
	const pause = 20 * time.Millisecond
	for end := time.Now().Add(endTime); ; {
		if now := statedir.FindHolder(dir); now != nil && drainer != nil && now.PID != drainer.PID && now.PID != 0 && drainer.PID != 0 {
			return nil
		}
		_, err := v.Daemon.Whoami(ctx)
		if e, ok := errors.AsType[*kinds.Error](err); ok && e.Code == kinds.DaemonUnavailable && statedir.FindHolder(dir) == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("drain: the daemon has drained and does not end within %s: look at its log", kinds.FormatDuration(endTime))
		}
		if err := pace.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}
