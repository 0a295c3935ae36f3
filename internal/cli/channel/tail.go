package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

func (c *verbs) tailCmd() *cobra.Command {
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
		Args:              frame.NamedArgs("CHANNEL"),
		ValidArgsFunction: c.completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			if last < 0 || last > 1000 {
				return frame.Usagef("--lines: expected 0 to 1000")
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

// retryFor is how long a tail tries again while the daemon or the host is away.
const retryFor = 24 * time.Hour

// showTail prints the last messages of a channel and, with follow, those that come. It asks
// for what follows the last message that it has printed, so that nothing is missing and
// nothing comes twice.
func (c *verbs) showTail(ctx context.Context, id, arg string, last int, follow bool) error {
	messages := channels.Path("channels", id, "messages")
	unsent := unsentTracker{verbs: c, id: id, arg: arg, told: make(map[string]string)}
	list, since, err := c.messagesAfter(ctx, messages+"?limit="+fmt.Sprint(max(1, last)), "")
	if err != nil {
		return cmp.Or(unsent.printNew(ctx, last == 0), err)
	}
	var shown []jsontext.Value
	var pause time.Duration
	ask := true // what is unsent: at the start, after an outage, when something waits, or nothing came for a while
	for list = list[:min(last, len(list))]; ; {
		for _, v := range list {
			if err := c.printMessage(ctx, v); err != nil {
				return err
			}
			if m, err := decodeMessage(v); err == nil {
				unsent.noteShown(m)
			}
		}
		if ask || unsent.waits {
			if err := unsent.printNew(ctx, last == 0); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		last = 1 // whatever comes now is shown
		if len(list) > 0 {
			shown = list
		}
		var ch channel
		began := time.Now()
		tries := 0
		err = frame.Retry(ctx, retryFor, 2*time.Second, c.retryWhileAway(ctx), func() (err error) {
			if tries++; tries > 1 {
				if err := unsent.printNew(ctx, false); err != nil {
					return err
				}
			}
			list, since, err = c.messagesAfter(ctx, messages+"?wait=60&since="+url.QueryEscape(since), since)
			if list = dropSeen(list, shown); err != nil || len(list) > 0 {
				return err
			}
			return c.get(ctx, channels.Path("channels", id), &ch)
		})
		if err != nil {
			return err
		}
		if len(list) == 0 && ch.Status != statusOpen {
			c.TellPerson("the channel is closed")
			return nil
		}
		if pause = pauseAfter(pause, len(list), time.Since(began)); pause > 0 {
			if err := pace.Sleep(ctx, pause); err != nil {
				return err
			}
		}
		ask = tries > 1 || len(list) == 0
	}
}

// pauseAfter returns how long to wait after a request that may take a minute. If a machine has
// nothing new and says so at once, the pauses grow.
func pauseAfter(before time.Duration, news int, took time.Duration) time.Duration {
	if news > 0 || took >= time.Second {
		return 0
	}
	return min(max(2*before, 20*time.Millisecond), 2*time.Second)
}

// dropSeen returns the messages of a list that were not in the one before: not every machine
// continues where it was asked to.
func dropSeen(list, before []jsontext.Value) []jsontext.Value {
	known := make(map[string]bool, len(before))
	for _, v := range before {
		if id, err := decodeID(v); err == nil {
			known[id] = true
		}
	}
	return slices.DeleteFunc(list, func(v jsontext.Value) bool {
		id, err := decodeID(v)
		return err == nil && known[id]
	})
}

// retryWhileAway returns a function for [frame.Retry]. It reports whether an error says that
// the daemon or the host is away or overloaded, and tells the user once.
func (c *verbs) retryWhileAway(ctx context.Context) func(error) bool {
	told := false
	return func(err error) bool {
		e, ok := errors.AsType[*kinds.Error](err)
		if !ok || e.Code != kinds.DaemonUnavailable && e.Code != kinds.Unreachable && e.Code != kinds.Overloaded {
			return false
		}
		if !told {
			told = true
			fmt.Fprintf(c.Err, "acpctl channel tail: %s (still trying)\n", client.Text(c.describeError(ctx, e)))
		}
		return true
	}
}

// messagesAfter returns the messages of a query and the id of the last one, since if there are
// none.
func (c *verbs) messagesAfter(ctx context.Context, query, since string) ([]jsontext.Value, string, error) {
	var list []jsontext.Value
	if err := c.get(ctx, query, &list); err != nil || len(list) == 0 {
		return nil, since, err
	}
	id, err := decodeID(list[len(list)-1])
	return list, id, err
}
