package channel

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/internal/cli/ui"
)

func (c *channels) listCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list [INTENT]",
		Short: "List the channels that you can see",
		Example: `  acpctl channel list
  acpctl channel list --as reviewer --json`,
		Long: `Shows of each channel its NAME, STATUS, MEMBERS, how many MESSAGES it has had, when the
LAST came, its ID and its INTENT and, where those of all intents are listed, that one's
TITLE: it tells channels of one name apart.`,
		Args:              frame.OptionalArgs("INTENT"),
		ValidArgsFunction: c.completeIntents,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := c.all(cmd.Context(), frame.FirstArg(args))
			if err == nil && len(args) == 0 {
				err = c.tellAway(cmd.Context())
			}
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSONLines(list)
			}
			known, err := decodeChannels(list)
			if err != nil {
				return err
			}
			head := []string{"NAME", "STATUS", "MEMBERS", "MESSAGES", "LAST", "ID", "INTENT"}
			if len(args) == 0 {
				head = append(head, "TITLE")
			}
			var rows [][]string
			for _, ch := range known {
				access := ch.Policy
				if ch.Restricted {
					access = "restricted"
				}
				row := []string{client.Line(ch.Name), ch.Status, access, strconv.FormatInt(ch.Count, 10), c.FormatTime(ch.LastAt), ch.ID, ch.Intent}
				if len(args) == 0 {
					row = append(row, ui.Shorten(c.titles[ch.Intent], maxTitle))
				}
				rows = append(rows, row)
			}
			c.PrintTable(head, rows)
			return nil
		},
	}
}

// maxTitle is how much of a title a table has room for, in characters.
const maxTitle = 60
