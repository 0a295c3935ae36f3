package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
)

func (c *channels) homesCmd() *cobra.Command {
	var free string
	cmd := &cobra.Command{
		Use:   "homes INTENT",
		Short: "List which daemon speaks for which agent about an intent",
		Example: `  acpctl channel homes INTENT
  acpctl channel homes INTENT --free reviewer      let another daemon speak for it`,
		Long: `An agent id belongs to the first daemon that uses it, this one or a peer's: its home.
--free gives it up, so that the agent can move.`,
		Args:              words("INTENT"),
		ValidArgsFunction: c.completeIntents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if free != "" {
				_, err := c.call(cmd.Context(), http.MethodDelete, path("intents", args[0], "homes", free), nil)
				return err
			}
			list := []jsontext.Value{}
			if err := c.read(cmd.Context(), path("intents", args[0], "homes"), &list); err != nil {
				return err
			}
			if c.json {
				return c.printAll(list)
			}
			return c.showHomes(cmd.Context(), args[0], list)
		},
	}
	cmd.Flags().StringVar(&free, "free", "", "the agent whose home is given up")
	return cmd
}

func (c *channels) showHomes(ctx context.Context, intent string, list []jsontext.Value) error {
	me, err := c.daemon.Whoami(ctx)
	if err != nil {
		return err
	}
	peers, err := c.daemon.Peers(ctx)
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
			h.Home, _, _ = strings.Cut(strings.TrimPrefix(intent, intentID), "_")
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
	c.table([]string{"AGENT", "HOME"}, rows)
	return nil
}
