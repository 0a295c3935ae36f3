package channel

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/cli/frame"
)

func (c *verbs) showCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show CHANNEL",
		Short: "Show what a channel is",
		Example: `  acpctl channel show questions
  acpctl channel show questions --json`,
		Args:              frame.NamedArgs("CHANNEL"),
		ValidArgsFunction: c.completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := c.findChannel(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			v, err := c.call(cmd.Context(), http.MethodGet, channels.Path("channels", id), nil)
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(v)
			}
			known, err := decodeChannels([]jsontext.Value{v})
			if err != nil {
				return err
			}
			ch := known[0]
			for i, m := range ch.Members {
				ch.Members[i] = c.displayName(cmd.Context(), m)
			}
			when := func(t time.Time) string {
				if t.IsZero() {
					return ""
				}
				return c.FormatTime(t)
			}
			c.PrintFields(
				[2]string{"name", client.Line(ch.Name)}, [2]string{"id", ch.ID}, [2]string{"intent", ch.Intent}, [2]string{"task", client.Line(ch.Task)},
				[2]string{"status", ch.Status}, [2]string{"created by", c.displayName(cmd.Context(), joinHome(ch.CreatedBy, ch.Home))}, [2]string{"created", when(ch.CreatedAt)}, [2]string{"closed", when(ch.ClosedAt)},
				[2]string{"members", cmp.Or(strings.Join(ch.Members, " "), "who has access to the intent")}, [2]string{"options", client.Line(string(ch.Options))},
				[2]string{"messages", strconv.FormatInt(ch.Count, 10)}, [2]string{"last message", when(ch.LastAt)},
			)
			return nil
		},
	}
}
