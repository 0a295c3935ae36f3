package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/internal/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// chatter is a message of a channel, as far as people are shown it.
type chatter struct {
	ID      string         `json:"id"`
	Sender  string         `json:"sender"`
	To      string         `json:"to"`
	Kind    string         `json:"message_type"`
	Payload jsontext.Value `json:"payload"`
	Status  string         `json:"status"`
	At      time.Time      `json:"created_at"`

	Channel string `json:"channel_id"` // this and the next are of what is unsent
	Intent  string `json:"intent_id"`
	Name    string `json:"channel_name"`
	Refusal struct {
		Message string `json:"message"`
	} `json:"refusal"`
}

func decodeMessage(v jsontext.Value) (m chatter, err error) {
	if err = json.Unmarshal(v, &m); err != nil {
		err = fmt.Errorf("read the daemon's answer: %w", err)
	}
	m.ID, m.Kind = client.Line(m.ID), client.Line(m.Kind) // another machine's words
	return m, err
}

func (c *channels) tailCmd() *cobra.Command {
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
			id, err := c.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.tail(cmd.Context(), id, args[0], last, follow)
		},
	}
	cmd.Flags().IntVarP(&last, "lines", "n", 10, "how many messages there are to be at first")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with those that come")
	return cmd
}

// outage is for how long a tail tries again.
const outage = 24 * time.Hour

// tail follows by asking for what comes after the last message that it has seen,
// so that nothing is missing and nothing comes twice.
func (c *channels) tail(ctx context.Context, id, arg string, last int, follow bool) error {
	messages := path("channels", id, "messages")
	unsent := unsentOf{channels: c, id: id, arg: arg, told: make(map[string]string)}
	list, since, err := c.after(ctx, messages+"?limit="+fmt.Sprint(max(1, last)), "")
	if err != nil {
		return cmp.Or(unsent.show(ctx, last == 0), err)
	}
	var shown []jsontext.Value
	var pause time.Duration
	ask := true // what is unsent: at the start, after an outage, when something waits, or nothing came for a while
	for list = list[:min(last, len(list))]; ; {
		for _, v := range list {
			if err := c.showMessage(ctx, v); err != nil {
				return err
			}
			if m, err := decodeMessage(v); err == nil {
				unsent.saw(m)
			}
		}
		if ask || unsent.waits {
			if err := unsent.show(ctx, last == 0); err != nil {
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
		err = frame.Retry(ctx, outage, 2*time.Second, c.isAway(ctx), func() (err error) {
			if tries++; tries > 1 {
				if err := unsent.show(ctx, false); err != nil {
					return err
				}
			}
			list, since, err = c.after(ctx, messages+"?wait=60&since="+url.QueryEscape(since), since)
			if list = unseen(list, shown); err != nil || len(list) > 0 {
				return err
			}
			return c.read(ctx, path("channels", id), &ch)
		})
		if err != nil {
			return err
		}
		if len(list) == 0 && ch.Status != isOpen {
			c.TellPerson("the channel is closed")
			return nil
		}
		if pause = restAfter(pause, len(list), time.Since(began)); pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		ask = tries > 1 || len(list) == 0
	}
}

// restAfter returns how long to rest after a request that may wait for a minute. A machine
// that has nothing new and says so at once is not asked again at once, ever more rarely.
func restAfter(before time.Duration, news int, took time.Duration) time.Duration {
	if news > 0 || took >= time.Second {
		return 0
	}
	return min(max(2*before, 20*time.Millisecond), 2*time.Second)
}

// unseen returns the messages of a list that were not in the one before: not every machine
// goes on where it was asked to.
func unseen(list, before []jsontext.Value) []jsontext.Value {
	known := make(map[string]bool, len(before))
	for _, v := range before {
		if id, err := idOf(v); err == nil {
			known[id] = true
		}
	}
	return slices.DeleteFunc(list, func(v jsontext.Value) bool {
		id, err := idOf(v)
		return err == nil && known[id]
	})
}

// isAway returns a function that reports whether an error says that the daemon or the
// host is away, or has no room for now, and tells of the first.
func (c *channels) isAway(ctx context.Context) func(error) bool {
	told := false
	return func(err error) bool {
		e, ok := errors.AsType[*kinds.Error](err)
		if !ok || e.Code != kinds.DaemonUnavailable && e.Code != kinds.Unreachable && e.Code != kinds.Overloaded {
			return false
		}
		if !told {
			told = true
			fmt.Fprintf(c.Err, "acpctl channel tail: %s (still trying)\n", client.Text(c.saying(ctx, e)))
		}
		return true
	}
}

// after lists messages and returns with them the id of the last, or else since.
func (c *channels) after(ctx context.Context, query, since string) ([]jsontext.Value, string, error) {
	var list []jsontext.Value
	if err := c.read(ctx, query, &list); err != nil || len(list) == 0 {
		return nil, since, err
	}
	id, err := idOf(list[len(list)-1])
	return list, id, err
}

func (c *channels) showMessage(ctx context.Context, v jsontext.Value) error {
	if c.JSON {
		return c.PrintJSON(v)
	}
	m, err := decodeMessage(v)
	if err != nil {
		return err
	}
	from, to, said := c.called(ctx, m.Sender), c.called(ctx, cmp.Or(m.To, "*")), wording(m.Payload)
	if !c.OutTTY {
		columns := []string{c.FormatTime(m.At), from, to, m.Kind, m.ID, client.Line(said)}
		if note := m.becoming(); note != "" {
			columns = append(columns, note)
		}
		c.PrintLine("%s", strings.Join(columns, "\t"))
		return c.Unwritten()
	}
	c.PrintLine("%s  %s to %s  %s  %s\n  %s", c.FormatTime(m.At), c.Paint(ui.Bold, from), to, m.Kind, m.ID,
		strings.ReplaceAll(client.Text(said), "\n", "\n  "))
	if note := m.becoming(); note != "" {
		c.PrintLine("  (%s)", note)
	}
	return c.Unwritten()
}
