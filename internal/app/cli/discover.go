package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

func (a *app) newDiscoverCmd() *cobra.Command {
	var fresh bool
	cmd := &cobra.Command{
		Use:   "discover PEER[/AGENT]",
		Short: "Ask what the agents of a peer can do",
		Example: `  acpctl discover desk
  acpctl discover desk/reviewer --fresh`,
		Long: `acpctl agents lists the agents of all connected peers.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := a.Daemon.Discover(cmd.Context(), client.DiscoverParams{To: args[0], Fresh: fresh})
			if err != nil {
				return err
			}
			return a.printCapabilities(answer)
		},
	}
	cmd.Flags().BoolVar(&fresh, "fresh", false, "ask again, whatever is remembered (for 60 s)")
	return cmd
}

// printCapabilities prints what a peer says that it can do.
func (a *app) printCapabilities(answer *client.Answer) error {
	if a.JSON {
		return a.PrintJSON(answer)
	}
	c, err := kinds.ParsePayload[kinds.Capabilities](answer.Payload)
	if err != nil {
		return err
	}
	list := func(s []string) string { return client.Line(strings.Join(s, ", ")) }
	most := ""
	if c.MaxConcurrentTasks > 0 {
		most = strconv.FormatUint(c.MaxConcurrentTasks, 10)
	}
	a.PrintFields(
		[2]string{"agent", client.Line(c.AgentName)},
		[2]string{"agents", ui.FormatAgentNames(c.Agents, kinds.MaxDetails)},
		[2]string{"domains", list(c.Domains)},
		[2]string{"channels", list(c.Channels)},
		[2]string{"tools", list(c.Tools)},
		[2]string{"model", client.Line(c.Model)},
		[2]string{"at once", most},
	)
	return nil
}
