package channel

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client/channels"
)

func (c *verbs) newCloseCmd() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "close CHANNEL",
		Short: "Close a channel for good",
		Example: `  acpctl channel close questions
  acpctl channel close questions --delete`,
		Long: `Nothing can be sent to a closed channel; its open requests expire. It stays readable
by its id for a day unless the daemon is configured otherwise; with --delete it goes at
once.`,
		ValidArgsFunction: c.completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := c.findChannel(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if remove {
				deleted, err := c.channelsClient().DeleteChannel(cmd.Context(), id)
				if err == nil && c.JSON {
					return c.PrintJSON(deleted.JSON)
				}
				return c.explainNotManager(cmd.Context(), err, id)
			}
			closed, err := c.channelsClient().CloseChannel(cmd.Context(), id)
			if err == nil && c.JSON {
				return c.PrintJSON(closed.JSON)
			}
			return c.explainNotManager(cmd.Context(), err, id)
		},
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "remove it and its messages at once")
	return cmd
}

// explainNotManager replaces the refusal of a caller that may not close a channel by one that says
// who may.
func (c *verbs) explainNotManager(ctx context.Context, err error, id string) error {
	refusal, ok := errors.AsType[*channels.Refusal](err)
	if !ok || refusal.Code != "not_manager" {
		return err
	}
	creator := "its creator"
	if ch, err := c.channelsClient().Channel(ctx, id); err == nil && ch.CreatedBy != "" {
		creator += " " + c.formatAgentName(ctx, joinAgentName(ch.CreatedBy, ch.Home))
	}
	r := *refusal
	r.Message = fmt.Sprintf("only %s, the intent's coordinators and its admins may close the channel", creator)
	return &r
}
