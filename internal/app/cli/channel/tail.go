package channel

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
)

func (c *verbs) newTailCmd() *cobra.Command {
	var last int
	var follow bool
	cmd := &cobra.Command{
		Use:   "tail CHANNEL",
		Short: "Show the last messages, and with -f those that come",
		Example: `  acpctl channel tail questions
  acpctl channel tail questions -n 0 -f --as reviewer --json`,
		Long: `Shows what you can see: your messages, those to you or a role of yours, and those to
everybody; without --as all of them. Of your messages to a channel on another machine it
also shows those that wait for that machine, or that it refused. With -f it ends when the channel is closed, and
goes on where it was after the daemon or the channel's machine was away.`,
		ValidArgsFunction: c.completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			if last < 0 || last > 1000 {
				return frame.UsageErrorf("--lines: expected 0 to 1000")
			}
			id, err := c.findChannel(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.showTail(cmd.Context(), id, args[0], last, follow)
		},
	}
	cmd.Flags().IntVarP(&last, "lines", "n", 10, "how many messages there are to be at first")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with those that come")
	return cmd
}

// retryFor bounds how long a tail tries again while the daemon or the host is away.
const retryFor = 24 * time.Hour

// showTail prints the last messages of a channel and, with follow, those that come. It asks
// for what follows the last message that it has printed, so that nothing is missing and
// nothing comes twice.
func (c *verbs) showTail(ctx context.Context, id, arg string, last int, follow bool) error {
	tail := c.channelsClient().Tail(id)
	unsent := unsentTracker{verbs: c, id: id, arg: arg, told: make(map[string]channels.MessageStatus)}
	list, err := tail.ReadLast(ctx, last)
	if err != nil {
		return cmp.Or(unsent.printNewStatuses(ctx, last == 0), err)
	}
	ask := true // what is unsent: at the start, after an outage, when something waits, or nothing came for a while
	for {
		for i := range list {
			if err := c.printMessage(ctx, &list[i]); err != nil {
				return err
			}
			unsent.recordShown(&list[i])
		}
		if ask || unsent.waits {
			if err := unsent.printNewStatuses(ctx, last == 0); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		last = 1 // whatever comes now is shown
		tries := 0
		err = frame.RetryWhile(ctx, retryFor, 2*time.Second, c.newRetryCondition(ctx), func() (err error) {
			if tries++; tries > 1 {
				if err := unsent.printNewStatuses(ctx, false); err != nil {
					return err
				}
			}
			list, err = tail.ReadNext(ctx)
			return err
		})
		if err == io.EOF {
			c.PrintForPerson("the channel is closed")
			return nil
		}
		if err != nil {
			return err
		}
		ask = tries > 1 || len(list) == 0
	}
}

// newRetryCondition returns a function for [frame.RetryWhile]. It reports whether an error says that
// the daemon or the host is away or overloaded, and tells the user once.
func (c *verbs) newRetryCondition(ctx context.Context) func(error) bool {
	told := false
	return func(err error) bool {
		e, ok := errors.AsType[*kinds.Error](err)
		if !ok || e.Code != kinds.DaemonUnavailable && e.Code != kinds.Unreachable && e.Code != kinds.Overloaded {
			return false
		}
		if !told {
			told = true
			c.Warn("%s (still trying)", c.describeError(ctx, err))
		}
		return true
	}
}
