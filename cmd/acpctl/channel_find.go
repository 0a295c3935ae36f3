package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// channel is what the daemon says of one, as far as people are shown it.
type channel struct {
	ID         string         `json:"id"`
	Intent     string         `json:"intent_id"`
	Name       string         `json:"name"`
	Task       string         `json:"task_id"`
	CreatedBy  string         `json:"created_by"`
	Home       string         `json:"home"` // of its creator
	Members    []string       `json:"members"`
	Policy     string         `json:"member_policy"`
	Options    jsontext.Value `json:"options"`
	Status     string         `json:"status"`
	CreatedAt  time.Time      `json:"created_at"`
	ClosedAt   time.Time      `json:"closed_at"`
	Count      int64          `json:"message_count"`
	LastAt     time.Time      `json:"last_message_at"`
	Restricted bool           `json:"restricted"`
}

const (
	intentID = "intent_"
	chanID   = "chan_"
	isOpen   = "open"
)

// all returns the channels of an intent, or of every intent that can be seen. Of
// those of an intent that cannot be had, on a machine that is out of reach perhaps,
// it tells, and goes on.
func (c *channels) all(ctx context.Context, intent string) ([]jsontext.Value, error) {
	intents := []string{intent}
	if intent == "" {
		var err error
		if intents, err = c.intents(ctx); err != nil {
			return nil, err
		}
	}
	var found []jsontext.Value
	for _, id := range intents {
		of, err := c.of(ctx, id)
		if away := (*kinds.Error)(nil); intent == "" && errors.As(err, &away) && away.Code != kinds.DaemonUnavailable {
			fmt.Fprintf(c.err, "acpctl channel: %s: %s\n", id, client.Line(away.Message))
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, of...)
	}
	return found, nil
}

// A list also ends when it is long in bytes: not before a page is empty there is no more.

// of returns the channels of an intent.
func (c *channels) of(ctx context.Context, intent string) ([]jsontext.Value, error) {
	for list := []jsontext.Value{}; ; {
		var next []jsontext.Value
		if err := c.read(ctx, fmt.Sprintf("%s?limit=1000&offset=%d", path("intents", intent, "channels"), len(list)), &next); err != nil {
			return nil, err
		}
		if list = append(list, next...); len(next) == 0 {
			return list, nil
		}
	}
}

func (c *channels) intents(ctx context.Context) ([]string, error) {
	for ids := []string{}; ; {
		var list struct {
			Intents []struct {
				ID string `json:"id"`
			} `json:"intents"`
		}
		if err := c.read(ctx, fmt.Sprintf("%s?limit=1000&offset=%d", path("intents"), len(ids)), &list); err != nil {
			return nil, err
		}
		for _, in := range list.Intents {
			ids = append(ids, in.ID)
		}
		if len(list.Intents) == 0 {
			return ids, nil
		}
	}
}

func decodeChannels(list []jsontext.Value) ([]channel, error) {
	decoded := make([]channel, len(list))
	for i, v := range list {
		if err := json.Unmarshal(v, &decoded[i]); err != nil {
			return nil, fmt.Errorf("read the daemon's answer: %w", err)
		}
		decoded[i].ID, decoded[i].Intent = client.Line(decoded[i].ID), client.Line(decoded[i].Intent) // another machine's words
	}
	return decoded, nil
}

// find returns the id of the channel that CHANNEL means.
func (c *channels) find(ctx context.Context, arg string) (string, error) {
	if strings.HasPrefix(arg, chanID) {
		return arg, nil
	}
	intent, name := apart(arg)
	list, err := c.all(ctx, intent)
	if err != nil {
		return "", err
	}
	known, err := decodeChannels(list)
	if err != nil {
		return "", err
	}
	var found []channel
	for _, ch := range known {
		if ch.Name == name && ch.Status == isOpen {
			found = append(found, ch)
		}
	}
	switch len(found) {
	case 1:
		return found[0].ID, nil
	case 0:
		if err := c.elsewhere(ctx, arg); err != nil {
			return "", err
		}
		return "", hint{kinds.Errorf(kinds.NotFound, "there is no open channel %q that you can see", arg), "acpctl channel list shows those that there are, with --as AGENT those of other machines too"}
	}
	return "", usagef("CHANNEL: %d channels are called %q: name one as %s/%s or by its id", len(found), arg, found[0].Intent, arg)
}

// elsewhere is the error of a channel that is not found while it may be on a machine
// that is out of reach; nil if there is none that would be asked.
func (c *channels) elsewhere(ctx context.Context, arg string) error {
	if c.speaker() == "" {
		return nil // an operator is one here alone
	}
	peers, err := c.daemon.Peers(ctx)
	if err != nil {
		return err
	}
	var away []string
	for _, p := range peers {
		if p.State == client.PeerTrusted {
			away = append(away, cmp.Or(p.Name, p.ID.Label()))
		}
	}
	switch len(away) {
	case 0:
		return nil
	case 1:
		return kinds.Errorf(kinds.Unreachable, "there is no open channel %q in reach; it may be on %s, which is not: try again when that is back, or name it by its id", arg, away[0])
	}
	return kinds.Errorf(kinds.Unreachable, "there is no open channel %q in reach; it may be on %s or another of the %d machines that are not: try again when they are back, or name it by its id", arg, away[0], len(away))
}

// apart takes INTENT/NAME apart; any other name has no intent.
func apart(arg string) (intent, name string) {
	if intent, name, ok := strings.Cut(arg, "/"); ok && strings.HasPrefix(intent, intentID) {
		return intent, name
	}
	return "", arg
}

func (c *channels) listCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list [INTENT]",
		Short: "List the channels that you can see",
		Example: `  acpctl channel list
  acpctl channel list --as reviewer --json`,
		Args:              atMost("INTENT"),
		ValidArgsFunction: c.completeIntents,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := c.all(cmd.Context(), first(args))
			if err != nil {
				return err
			}
			if c.json {
				return c.printAll(list)
			}
			known, err := decodeChannels(list)
			if err != nil {
				return err
			}
			var rows [][]string
			for _, ch := range known {
				access := ch.Policy
				if ch.Restricted {
					access = "restricted"
				}
				rows = append(rows, []string{client.Line(ch.Name), ch.Status, access, strconv.FormatInt(ch.Count, 10), c.moment(ch.LastAt), ch.ID, ch.Intent})
			}
			c.table([]string{"NAME", "STATUS", "MEMBERS", "MESSAGES", "LAST", "ID", "INTENT"}, rows)
			return nil
		},
	}
}

// printAll prints the objects of a list, one a line.
func (a *app) printAll(list []jsontext.Value) error {
	for _, v := range list {
		if err := a.print(v); err != nil {
			return err
		}
	}
	return nil
}

func (c *channels) showCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show CHANNEL",
		Short: "Show what a channel is",
		Example: `  acpctl channel show questions
  acpctl channel show questions --json`,
		Args:              words("CHANNEL"),
		ValidArgsFunction: c.completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := c.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			v, err := c.call(cmd.Context(), http.MethodGet, path("channels", id), nil)
			if err != nil {
				return err
			}
			if c.json {
				return c.print(v)
			}
			known, err := decodeChannels([]jsontext.Value{v})
			if err != nil {
				return err
			}
			ch := known[0]
			for i, m := range ch.Members {
				ch.Members[i] = c.called(cmd.Context(), m)
			}
			when := func(t time.Time) string {
				if t.IsZero() {
					return ""
				}
				return c.moment(t)
			}
			c.fields(
				[2]string{"name", client.Line(ch.Name)}, [2]string{"id", ch.ID}, [2]string{"intent", ch.Intent}, [2]string{"task", client.Line(ch.Task)},
				[2]string{"status", ch.Status}, [2]string{"created by", c.called(cmd.Context(), withHome(ch.CreatedBy, ch.Home))}, [2]string{"created", when(ch.CreatedAt)}, [2]string{"closed", when(ch.ClosedAt)},
				[2]string{"members", cmp.Or(strings.Join(ch.Members, " "), "who has access to the intent")}, [2]string{"options", client.Line(string(ch.Options))},
				[2]string{"messages", strconv.FormatInt(ch.Count, 10)}, [2]string{"last message", when(ch.LastAt)},
			)
			return nil
		},
	}
}
