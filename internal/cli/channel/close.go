package channel

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/cli/frame"
)

func (c *verbs) closeCmd() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "close CHANNEL",
		Short: "Close a channel for good",
		Example: `  acpctl channel close questions
  acpctl channel close questions --delete`,
		Long: `Nothing can be sent to a closed channel; its open requests expire. It stays readable
by its id for a day unless the daemon is configured otherwise; with --delete it goes at
once.`,
		Args:              frame.NamedArgs("CHANNEL"),
		ValidArgsFunction: c.completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := c.findChannel(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var v jsontext.Value
			if remove {
				v, err = c.call(cmd.Context(), http.MethodDelete, channels.Path("channels", id), nil)
			} else {
				v, err = c.call(cmd.Context(), http.MethodPatch, channels.Path("channels", id), &channels.ChannelChange{Status: channels.StatusClosed})
			}
			if err == nil && c.JSON {
				return c.PrintJSON(v)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "remove it and its messages at once")
	return cmd
}
