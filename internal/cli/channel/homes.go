package channel

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/cli/frame"
)

func (c *verbs) homesCmd() *cobra.Command {
	var free string
	cmd := &cobra.Command{
		Use:   "homes INTENT",
		Short: "List who has used an intent, and where they are at home",
		Example: `  acpctl channel homes INTENT
  acpctl channel homes INTENT --free reviewer      let an agent of another machine have the id`,
		Long: `An id that an agent of the intent's own machine has used is no other machine's; of the
machines in channels.open_to the first that used one has it. --free forgets that AGENT,
or AGENT@PEER, has used the intent.`,
		Args:              frame.NamedArgs("INTENT"),
		ValidArgsFunction: c.completeIntents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if free != "" {
				agent, err := c.resolveAgent(cmd.Context(), free)
				if err == nil {
					_, err = c.call(cmd.Context(), http.MethodDelete, channels.Path("intents", args[0], "homes", agent), nil)
				}
				return err
			}
			list := []jsontext.Value{}
			if err := c.get(cmd.Context(), channels.Path("intents", args[0], "homes"), &list); err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSONLines(list)
			}
			return c.printHomes(cmd.Context(), args[0], list)
		},
	}
	cmd.Flags().StringVar(&free, "free", "", "the agent that has not used it any more")
	return cmd
}

func (c *verbs) printHomes(ctx context.Context, intent string, list []jsontext.Value) error {
	me, err := c.Daemon.Whoami(ctx)
	if err != nil {
		return err
	}
	peers, err := c.Daemon.Peers(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, v := range list {
		var h struct {
			Agent string `json:"agent_id"`
			Home  string `json:"home"`
		}
		if err := json.Unmarshal(v, &h); err != nil {
			return fmt.Errorf("read the daemon's answer: %w", err)
		}
		if h.Home == "" { // at the intent's host, whose id the intent's begins with
			h.Home, _, _ = strings.Cut(strings.TrimPrefix(intent, intentPrefix), "_")
		}
		where := h.Home
		if h.Home != "" && strings.HasPrefix(me.ID.String(), h.Home) {
			where = "here"
		}
		for _, p := range peers {
			if p.Name != "" && h.Home != "" && strings.HasPrefix(p.ID.String(), h.Home) {
				where = p.Name
			}
		}
		rows = append(rows, []string{client.Line(h.Agent), client.Line(where)})
	}
	c.PrintTable([]string{"AGENT", "HOME"}, rows)
	return nil
}
