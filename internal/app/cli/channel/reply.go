package channel

import (
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client/channels"
)

func (c *verbs) newReplyCmd() *cobra.Command {
	var s payloadArg
	cmd := &cobra.Command{
		Use:   "reply CHANNEL MESSAGE TEXT",
		Short: "Reply to a request",
		Example: `  acpctl channel reply questions MESSAGE 'v2.3' --as reviewer
  acpctl channel reply questions MESSAGE --payload '{"answer": "v2.3"}'`,
		Long: `MESSAGE is the request's id, as tail shows it. Say with --as who replies: one of those
that the request is for. Prints the reply's id, as send does.
TEXT may be - (standard input) or @file.`,
		Args:              s.newArgsCheck("CHANNEL", "MESSAGE"),
		ValidArgsFunction: c.completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			payload, err := s.readPayload(ctx, c.Frame, args)
			if err != nil {
				return err
			}
			id, err := c.findChannel(ctx, args[0])
			if err != nil {
				return err
			}
			sent, err := c.channelsClient().Reply(ctx, id, args[1], channels.ReplyParams{Payload: payload})
			if err != nil {
				return err
			}
			return c.printSent(sent)
		},
	}
	s.addFlags(cmd)
	return cmd
}
