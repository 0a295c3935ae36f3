package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
)

func (a *app) peersCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "peers",
		Short: "List the peers, and the strangers that called or were discovered",
		Example: `  acpctl peers
  acpctl peers --json`,
		Long: `Lists trusted peers (connected, or just trusted; refuses us: it does not trust this
daemon), strangers (pending: they called and
wait to be trusted; discovered: they are on the network) and blocked keys. What a
stranger calls itself stands in quotes: it proves nothing. SOURCE says where the first
address comes from: worked (connected there before), static (config.yaml, trust --addr,
an invitation), mdns (heard on the network), call (the stranger called from there).`,
		Args:              words(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			peers, err := a.daemon.Peers(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.print(client.Peers{Peers: peers})
			}
			var rows [][]string
			var refusing []string
			stranger := false
			for _, p := range peers {
				rows = append(rows, []string{peerName(&p), p.ID.Label(), peerState(&p), rtt(p.RTTUS), a.age(p.LastSeen.Time), orDash(string(p.Source)), client.Line(strings.Join(p.Addrs, " "))})
				stranger = stranger || p.State == client.PeerPending || p.State == client.PeerDiscovered
				if p.Refuses {
					refusing = append(refusing, peerName(&p))
				}
			}
			a.table([]string{"NAME", "ID", "STATE", "RTT", "SEEN", "SOURCE", "ADDRESSES"}, rows)
			for _, name := range refusing {
				a.talk("%s does not trust this daemon: acpctl trust there", name)
			}
			switch {
			case len(rows) == 0:
				a.talk("start acpd on another machine of this network, or connect one anywhere: acpctl invite")
			case stranger:
				a.talk("to connect a stranger, on both sides: acpctl trust NAME")
			}
			return nil
		},
	}
}

// peerState is a peer's state, with what it says of this daemon if that keeps it away.
func peerState(p *client.Peer) string {
	if p.Refuses {
		return string(p.State) + ", refuses us"
	}
	return string(p.State)
}

func peerName(p *client.Peer) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Claim == "":
		return "-"
	case p.NameConflict:
		return `"` + client.Line(p.Claim) + `" (a trusted peer's name!)`
	}
	return `"` + client.Line(p.Claim) + `"`
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return client.Line(s)
}

func rtt(us *uint64) string {
	if us == nil {
		return "-"
	}
	return millis(*us)
}

// completePeer completes a first argument by the names of trusted peers.
func (a *app) completePeer(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.complete(cmd, args, begun, client.PeerConnected, client.PeerTrusted)
}

func (a *app) complete(cmd *cobra.Command, args []string, begun string, states ...client.PeerState) ([]cobra.Completion, cobra.ShellCompDirective) {
	const patience = 500 * time.Millisecond
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if a.begin() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	peers, err := a.daemon.Peers(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []cobra.Completion
	for _, p := range peers {
		name, what := p.Name, string(p.State)
		if name == "" {
			name, what = p.ID.String(), what+" "+peerName(&p)
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
