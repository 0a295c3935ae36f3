package channel

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
)

func (c *verbs) newShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show CHANNEL",
		Short: "Show what a channel is",
		Example: `  acpctl channel show questions
  acpctl channel show questions --json`,
		ValidArgsFunction: c.completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := c.findChannel(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			ch, err := c.channelsClient().Channel(cmd.Context(), id)
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(ch.JSON)
			}
			var all struct {
				Options jsontext.Value `json:"options"` // those that Go does not know, too
			}
			if err := json.Unmarshal(ch.JSON, &all); err != nil {
				return err
			}
			for i, m := range ch.Members {
				ch.Members[i] = c.formatAgentName(cmd.Context(), m)
			}
			when := func(t channels.Time) string {
				if t.IsZero() {
					return ""
				}
				return c.FormatTime(t.Time)
			}
			c.PrintFields(
				[2]string{"name", client.Line(ch.Name)}, [2]string{"id", client.Line(ch.ID)}, [2]string{"intent", client.Line(ch.IntentID)}, [2]string{"task", client.Line(ch.TaskID)},
				[2]string{"status", string(ch.Status)}, [2]string{"created by", c.formatAgentName(cmd.Context(), joinAgentName(ch.CreatedBy, ch.Home))}, [2]string{"created", when(ch.CreatedAt)}, [2]string{"closed", when(ch.ClosedAt)},
				[2]string{"members", cmp.Or(strings.Join(ch.Members, " "), "who has access to the intent")}, [2]string{"options", client.Line(string(all.Options))},
				[2]string{"messages", strconv.FormatInt(ch.MessageCount, 10)}, [2]string{"last message", when(ch.LastMessageAt)},
			)
			return nil
		},
	}
}
