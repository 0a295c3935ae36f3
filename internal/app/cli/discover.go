package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

func (a *app) newDiscoverCmd() *cobra.Command {
	var fresh bool
	cmd := &cobra.Command{
		Use:   "discover [PEER[/AGENT]]",
		Short: "Ask what the agents of a peer can do",
		Example: `  acpctl discover
  acpctl discover desk
  acpctl discover desk/reviewer --fresh`,
		Long: `Without PEER it asks all connected peers, each for 5 seconds at most.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.discoverAll(cmd.Context(), fresh)
			}
			answer, err := a.Daemon.Discover(cmd.Context(), client.DiscoverParams{To: args[0], Fresh: fresh})
			if err != nil {
				return err
			}
			return a.printCapabilities(answer, "")
		},
	}
	cmd.Flags().BoolVar(&fresh, "fresh", false, "ask again, whatever is remembered (for 60 s)")
	return cmd
}

// discoverAll asks all connected peers what they can do, at the same time, and prints what each answers.
func (a *app) discoverAll(ctx context.Context, fresh bool) error {
	peers, err := a.Daemon.Peers(ctx)
	if err != nil {
		return err
	}
	peers = slices.DeleteFunc(peers, func(p client.Peer) bool { return p.State != client.PeerConnected })
	if len(peers) == 0 {
		a.PrintForPerson("no peer is connected: acpctl peers shows those that there are")
		return nil
	}
	answers, errs := make([]*client.Answer, len(peers)), make([]error, len(peers))
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var running sync.WaitGroup
	for i, p := range peers {
		running.Go(func() {
			answers[i], errs[i] = a.Daemon.Discover(asking, client.DiscoverParams{To: p.ID.String(), Fresh: fresh})
		})
	}
	running.Wait()
	for i := range peers {
		err := errs[i]
		if err == nil {
			err = a.printCapabilities(answers[i], ui.FormatPeerName(&peers[i]))
		}
		if err != nil {
			e, _ := a.ClassifyError(ctx, err)
			a.Warn("%s: %s", ui.FormatPeerName(&peers[i]), a.DescribeError(ctx, e))
		}
	}
	return nil
}

// printCapabilities prints what a peer says that it can do, below its name if that is given.
func (a *app) printCapabilities(answer *client.Answer, peer string) error {
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
		[2]string{"peer", peer},
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
