package frame

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// CompleteFirstArg completes a first argument by what list returns. list gets as long as a
// person at a prompt waits.
func (f *Frame) CompleteFirstArg(cmd *cobra.Command, args []string, list func(context.Context) []cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	const patience = 500 * time.Millisecond
	if len(args) > 0 || f.ChooseDaemon() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	return list(ctx), cobra.ShellCompDirectiveNoFileComp
}

// CompletePeers completes a first argument by the names of peers in one of these states.
func (f *Frame) CompletePeers(cmd *cobra.Command, args []string, begun string, states ...client.PeerState) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.CompleteFirstArg(cmd, args, func(ctx context.Context) (found []cobra.Completion) {
		peers, _ := f.Daemon.Peers(ctx)
		for _, p := range peers {
			name, what := p.Name, string(p.State)
			if name == "" {
				name, what = p.ID.String(), what+" "+ui.FormatPeerName(&p)
				// Any other text of a stranger's might mean something to the shell.
				if identity.CheckName(p.Claim) == nil && !p.NameConflict {
					name = p.Claim
				}
			}
			if slices.Contains(states, p.State) && strings.HasPrefix(name, begun) {
				found = append(found, cobra.CompletionWithDesc(name, what))
			}
		}
		return found
	})
}

// FindPetname returns the petname of the peer with an id, or else the id.
func (f *Frame) FindPetname(ctx context.Context, id string) string {
	if peers, err := f.Daemon.Peers(ctx); err == nil {
		for _, p := range peers {
			if p.ID.String() == id && p.Name != "" {
				return p.Name
			}
		}
	}
	return client.Line(id)
}
