package channel

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

func (c *verbs) newAskCmd() *cobra.Command {
	var s payloadArg
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
		Args: s.newArgsCheck("CHANNEL", "AGENT"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return c.completeAgents(cmd, nil, begun)
			}
			return c.completeChannels(cmd, args, begun)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if _, err := frame.ReadMilliseconds(cmd, "timeout", timeout, time.Hour); err != nil {
				return err
			}
			if cmd.Flags().Changed("min") && least < 1 {
				return frame.UsageErrorf("--min: expected a number of replies, 1 or more")
			}
			payload, err := s.readPayload(ctx, c.Frame, args)
			if err != nil {
				return err
			}
			to, err := c.resolveAgent(ctx, args[1])
			if err != nil {
				return err
			}
			id, err := c.findChannel(ctx, args[0])
			if err != nil {
				return err
			}
			ask := channels.AskParams{To: to, Payload: payload, TimeoutSecs: timeout.Seconds(), MinResponses: least, All: all}
			if !all && least == 0 {
				m, err := c.channelsClient().Ask(ctx, id, ask)
				if err != nil {
					return err
				}
				if c.JSON {
					return c.PrintJSON(m.JSON)
				}
				c.PrintLine("%s", client.Text(formatPayload(m.Payload)))
				return nil
			}
			several, err := c.channelsClient().AskSeveral(ctx, id, ask)
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(several.JSON)
			}
			for _, m := range several.Responses {
				c.PrintLine("%s\t%s", c.formatAgentName(ctx, m.Sender), client.Line(formatPayload(m.Payload)))
			}
			return nil
		},
	}
	s.addFlags(cmd)
	f := cmd.Flags()
	f.DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait, at most 1h")
	f.IntVar(&least, "min", 0, "wait for so many replies")
	f.BoolVar(&all, "all", false, "wait for everybody who was asked, or what there is at the timeout")
	return cmd
}
