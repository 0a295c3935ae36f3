package channel

import (
	"cmp"
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
)

func (c *verbs) newHomesCmd() *cobra.Command {
	var free string
	cmd := &cobra.Command{
		Use:   "homes INTENT",
		Short: "List who has used an intent, and where they are at home",
		Example: `  acpctl channel homes INTENT
  acpctl channel homes INTENT --free reviewer      let an agent of another machine have the id`,
		Long: `An id that an agent of the intent's own machine has used is no other machine's; of the
machines in channels.open_to the first that used one has it. --free forgets that AGENT,
or AGENT@PEER, has used the intent.`,
		ValidArgsFunction: c.completeIntents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if free != "" {
				agent, err := c.resolveAgent(cmd.Context(), free)
				if err == nil {
					err = c.channelsClient().FreeHome(cmd.Context(), args[0], agent)
				}
				return err
			}
			list, err := c.channelsClient().Homes(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if c.JSON {
				return printJSONLines(c, list, func(h channels.Home) jsontext.Value { return h.JSON })
			}
			return c.printHomes(cmd.Context(), args[0], list)
		},
	}
	cmd.Flags().StringVar(&free, "free", "", "the agent that has not used it any more")
	return cmd
}

func (c *verbs) printHomes(ctx context.Context, intent string, list []channels.Home) error {
	names, err := c.listDaemonNames(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, h := range list {
		where := cmp.Or(h.Home, channels.HostDigits(intent))
		for id, name := range names {
			if where != "" && strings.HasPrefix(id.String(), where) {
				where = name
				break
			}
		}
		rows = append(rows, []string{client.Line(h.Agent), client.Line(where)})
	}
	c.PrintTable([]string{"AGENT", "HOME"}, rows)
	return nil
}
