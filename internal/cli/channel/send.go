package channel

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/kinds"
)

func (c *channels) sendCmd() *cobra.Command {
	var s speak
	var to, key string
	var request bool
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "send CHANNEL TEXT",
		Short: "Send a message and do not wait",
		Example: `  acpctl channel send questions 'Half done.'                       to everybody
  acpctl channel send INTENT/progress --payload '{"done": 3}'      creates the channel if there is none
  acpctl channel send questions 'Which schema?' --request --to role:reviewer --expires 10m`,
		Long: `Prints the message's id. If its channel is on a machine that is out of reach, the
daemon sends it when that is back; "pending: …" on standard error tells of that. TEXT may be - (standard input) or @file.`,
		Args:              s.args("CHANNEL"),
		ValidArgsFunction: c.completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			payload, err := s.object(ctx, c.Frame, args)
			if err != nil {
				return err
			}
			body := map[string]any{"payload": payload, "message_type": "notify"}
			if request && to == "" {
				return frame.Usagef("--request: somebody is to reply: say who, by --to")
			}
			if request {
				body["message_type"] = "request"
			}
			if to != "" {
				if body["to"], err = c.name(ctx, to); err != nil {
					return err
				}
			}
			if expires < 0 {
				return frame.Usagef("--expires: expected a duration like 10m")
			}
			if expires > 0 {
				body["expires_at"] = time.Now().Add(expires).UTC().Format("2006-01-02T15:04:05.000000+00:00")
			}
			intent, name := apart(args[0])
			where := path("intents", intent, "channels", name, "messages")
			if intent == "" {
				id, err := c.findOpen(ctx, args[0])
				if err != nil {
					return err
				}
				where = path("channels", id, "messages")
			}
			v, err := c.request(ctx, http.MethodPost, where, body, key)
			if err != nil {
				return err
			}
			return c.sent(v)
		},
	}
	s.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "an agent, AGENT@PEER or role:ROLE (default: everybody)")
	f.BoolVar(&request, "request", false, "somebody is to reply; needs --to")
	f.DurationVar(&expires, "expires", 0, "after which nobody needs to read it any more")
	f.StringVar(&key, "key", "", "Idempotency-Key: repeating the call with the same one sends once")
	cmd.RegisterFlagCompletionFunc("to", ofFlag(c.completeAgents))
	return cmd
}

func (c *channels) replyCmd() *cobra.Command {
	var s speak
	cmd := &cobra.Command{
		Use:   "reply CHANNEL MESSAGE TEXT",
		Short: "Reply to a request",
		Example: `  acpctl channel reply questions MESSAGE 'v2.3' --as reviewer
  acpctl channel reply questions MESSAGE --payload '{"answer": "v2.3"}' --as reviewer`,
		Long: `MESSAGE is the request's id, as tail shows it. Say with --as who replies: one of those
that the request is for. Prints the reply's id, as send does.
TEXT may be - (standard input) or @file.`,
		Args:              s.args("CHANNEL", "MESSAGE"),
		ValidArgsFunction: c.completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			payload, err := s.object(ctx, c.Frame, args)
			if err != nil {
				return err
			}
			id, err := c.findOpen(ctx, args[0])
			if err != nil {
				return err
			}
			v, err := c.call(ctx, http.MethodPost, path("channels", id, "messages", args[1], "reply"), map[string]any{"payload": payload})
			if e, ok := errors.AsType[*kinds.Error](err); ok && e.Code == kinds.NotFound && e.From == "" {
				return frame.WithHint(e, "acpctl channel tail shows the requests that are for you, with their ids")
			}
			if err != nil {
				return err
			}
			return c.sent(v)
		},
	}
	s.flags(cmd)
	return cmd
}

func (c *channels) askCmd() *cobra.Command {
	var s speak
	var timeout time.Duration
	var least int
	var all bool
	cmd := &cobra.Command{
		Use:   "ask CHANNEL AGENT TEXT",
		Short: "Send a request and wait for the reply",
		Example: `  acpctl channel ask questions reviewer 'Which schema?'
  acpctl channel ask questions role:reviewer 'Ready?' --all --timeout 10s`,
		Long: `Prints what the reply says; with --all or --min a line for each, which begins with
its sender. AGENT may be AGENT@PEER or role:ROLE. TEXT may be - (standard input) or @file. Exits 3
if nobody replies in time.`,
		Args: s.args("CHANNEL", "AGENT"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return c.completeAgents(cmd, nil, begun)
			}
			return c.completeChannels(cmd, args, begun)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if _, err := frame.MillisecondsFlag(cmd, "timeout", timeout, time.Hour); err != nil {
				return err
			}
			if cmd.Flags().Changed("min") && least < 1 {
				return frame.Usagef("--min: expected a number of replies, 1 or more")
			}
			payload, err := s.object(ctx, c.Frame, args)
			if err != nil {
				return err
			}
			to, err := c.name(ctx, args[1])
			if err != nil {
				return err
			}
			id, err := c.findOpen(ctx, args[0])
			if err != nil {
				return err
			}
			v, err := c.call(ctx, http.MethodPost, path("channels", id, "ask"), map[string]any{
				"to": to, "payload": payload, "timeout": timeout.Seconds(), "min_responses": least, "all": all,
			})
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(v)
			}
			if !all && least == 0 {
				m, err := decodeMessage(v)
				c.PrintLine("%s", client.Text(wording(m.Payload)))
				return err
			}
			var several struct {
				Responses []chatter `json:"responses"`
			}
			err = json.Unmarshal(v, &several)
			for _, m := range several.Responses {
				c.PrintLine("%s\t%s", c.called(ctx, m.Sender), client.Line(wording(m.Payload)))
			}
			return err
		},
	}
	s.flags(cmd)
	f := cmd.Flags()
	f.DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait, at most 1h")
	f.IntVar(&least, "min", 0, "wait for so many replies")
	f.BoolVar(&all, "all", false, "wait for everybody who was asked, or what there is at the timeout")
	return cmd
}

// sent prints the id of a message, and tells of one that waits: also where no person
// reads, since a script must not take it for delivered.
func (c *channels) sent(v jsontext.Value) error {
	m, err := decodeMessage(v)
	if err != nil {
		return err
	}
	c.NoteDone("the message was sent, and its id is %s", m.ID)
	if m.Status == "pending" && !c.JSON {
		fmt.Fprintln(c.Err, "pending: its host is out of reach; it is sent when that is back; acpctl channel unsent tells what becomes of it")
	}
	return c.made(v)
}

// idOf is the id of what the daemon has made.
func idOf(v jsontext.Value) (string, error) {
	var made struct {
		ID string `json:"id"`
	}
	err := json.Unmarshal(v, &made)
	return client.Line(made.ID), err
}
