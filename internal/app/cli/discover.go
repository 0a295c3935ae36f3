package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

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
		Long: `Without PEER it asks all connected peers, for 5 seconds at most.`,
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

// discoverAll asks all connected peers what they can do, and prints what each answers.
func (a *app) discoverAll(ctx context.Context, fresh bool) error {
	peers, err := a.Daemon.Peers(ctx)
	if err != nil {
		return err
	}
	all := a.askConnected(ctx, peers, fresh, 5*time.Second)
	if len(all) == 0 {
		a.PrintForPerson("no peer is connected: acpctl peers shows those that there are")
	}
	for _, said := range all {
		name, err := ui.FormatPeerName(&said.peer), said.err
		if err == nil {
			err = a.printCapabilities(said.answer, name)
		}
		if err != nil {
			e, _ := a.ClassifyError(ctx, err)
			a.Warn("%s: %s", name, a.DescribeError(ctx, e))
		}
	}
	return nil
}

// peerAnswer is what a peer says that it can do, or why it is not known.
type peerAnswer struct {
	peer   client.Peer
	answer *client.Answer
	err    error
}

// maxAskedAtOnce bounds how many peers are asked at the same time.
const maxAskedAtOnce = 64

// askConnected asks the connected ones of peers what they can do, all of them together for so long at most.
func (a *app) askConnected(ctx context.Context, peers []client.Peer, fresh bool, patience time.Duration) (all []peerAnswer) {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, p := range peers {
		if p.State == client.PeerConnected {
			all = append(all, peerAnswer{peer: p})
		}
	}
	var g errgroup.Group
	g.SetLimit(maxAskedAtOnce)
	for i := range all {
		said := &all[i]
		g.Go(func() error {
			said.answer, said.err = a.Daemon.Discover(asking, client.DiscoverParams{To: said.peer.ID.String(), Fresh: fresh, TimeoutMS: uint64(patience.Milliseconds())})
			if said.err != nil && asking.Err() != nil && ctx.Err() == nil {
				said.err = kinds.Errorf(kinds.Timeout, "it has not said in %s what it can do", patience)
			}
			return nil
		})
	}
	g.Wait()
	return all
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
