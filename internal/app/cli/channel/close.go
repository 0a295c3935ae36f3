package channel

import (
	"github.com/spf13/cobra"
)

func (c *verbs) newCloseCmd() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "close CHANNEL",
		Short: "Close a channel for good",
		Example: `  acpctl channel close questions
  acpctl channel close questions --delete`,
		Long: `Nothing can be sent to a closed channel; its open requests expire. It stays readable
by its id for a day; with --delete it goes at
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
				return err
			}
			closed, err := c.channelsClient().CloseChannel(cmd.Context(), id)
			if err == nil && c.JSON {
				return c.PrintJSON(closed.JSON)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "remove it and its messages at once")
	return cmd
}
