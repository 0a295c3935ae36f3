package channel

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

func (c *verbs) newSendCmd() *cobra.Command {
	var s payloadArg
	var to, key string
	var request bool
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "send CHANNEL TEXT",
		Short: "Send a message and do not wait",
		Example: `  acpctl channel send questions 'Half done.'                       to everybody
  acpctl channel send INTENT/progress --payload '{"done": 3}'      creates the channel if there is none
  acpctl channel send questions 'Which schema?' --request --to role:reviewer`,
		Long: `Prints the message's id. If its channel is on a machine that is out of reach, the
daemon sends it when that is back; "pending: …" on standard error tells of that. TEXT may be - (standard input) or @file.`,
		Args: func(cmd *cobra.Command, args []string) error {
			err := s.newArgsCheck("CHANNEL")(cmd, args)
			if err != nil && len(args) == 3 && s.payload == "" {
				return fmt.Errorf("%w, or address one agent with --to %s", err, client.Line(args[1]))
			}
			return err
		},
		ValidArgsFunction: c.completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			payload, err := s.readPayload(ctx, c.Frame, args)
			if err != nil {
				return err
			}
			body := channels.SendParams{Payload: payload, Type: channels.TypeNotify}
			if request && to == "" {
				return frame.UsageErrorf("--request: somebody is to reply: say who, by --to")
			}
			if request {
				body.Type = channels.TypeRequest
			}
			if to != "" {
				if body.To, err = c.resolveAgent(ctx, to); err != nil {
					return err
				}
			}
			if expires < 0 {
				return frame.UsageErrorf("--expires: expected a duration like 10m")
			}
			if expires > 0 {
				body.ExpiresAt = channels.Time{Time: time.Now().Add(expires)}
			}
			var sent *channels.Message
			if intent, name := splitChannelName(args[0]); intent != "" {
				sent, err = c.channelsClient().SendByName(ctx, intent, name, body, key)
			} else {
				id, missing := c.findChannel(ctx, args[0])
				if missing != nil {
					return missing
				}
				sent, err = c.channelsClient().Send(ctx, id, body, key)
			}
			if err != nil {
				return err
			}
			return c.printSent(sent)
		},
	}
	s.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "an agent, AGENT@PEER or role:ROLE (default: everybody)")
	f.BoolVar(&request, "request", false, "somebody is to reply; needs --to")
	f.DurationVar(&expires, "expires", 0, "after which nobody needs to read it any more")
	f.StringVar(&key, "key", "", "Idempotency-Key: repeating the call with the same one sends once")
	cmd.RegisterFlagCompletionFunc("to", newFlagCompletion(c.completeAgents))
	return cmd
}

// printSent prints the id of a message. It tells scripts too if the message waits: they must
// not take it for delivered.
func (c *verbs) printSent(m *channels.Message) error {
	c.SetDoneNote("the message was sent, and its id is %s", client.Line(m.ID))
	if m.Status == channels.StatusPending && !c.JSON {
		c.Tell("pending: its host is out of reach; it is sent when that is back; acpctl channel unsent tells what becomes of it")
	}
	return c.printCreated(m.ID, m.JSON)
}
