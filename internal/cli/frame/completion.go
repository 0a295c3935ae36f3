package frame

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/cli/ui"
)

// CompleteTrustedPeer completes a first argument by the names of trusted peers.
func (f *Frame) CompleteTrustedPeer(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.CompletePeers(cmd, args, begun, client.PeerConnected, client.PeerTrusted)
}

// CompletePeers completes a first argument by the names of peers in one of these states.
func (f *Frame) CompletePeers(cmd *cobra.Command, args []string, begun string, states ...client.PeerState) ([]cobra.Completion, cobra.ShellCompDirective) {
	const patience = 500 * time.Millisecond
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if f.ChooseDaemon() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	peers, err := f.Daemon.Peers(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []cobra.Completion
	for _, p := range peers {
		name, what := p.Name, string(p.State)
		if name == "" {
			name, what = p.ID.String(), what+" "+ui.ShowName(&p)
			// Any other text of a stranger's might mean something to the shell.
			if identity.CheckName(p.Claim) == nil && !p.NameConflict {
				name = p.Claim
			}
		}
		for _, s := range states {
			if p.State == s && strings.HasPrefix(name, begun) {
				found = append(found, cobra.CompletionWithDesc(name, what))
			}
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// PetnameOf returns the petname of the peer with an id, the id if it has none.
func (f *Frame) PetnameOf(ctx context.Context, id string) string {
	if peers, err := f.Daemon.Peers(ctx); err == nil {
		for _, p := range peers {
			if p.ID.String() == id && p.Name != "" {
				return p.Name
			}
		}
	}
	return client.Line(id)
}
