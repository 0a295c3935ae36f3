package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

func (a *app) newPeersCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "peers",
		Short: "List the peers, and the strangers that called or were discovered",
		Example: `  acpctl peers
  acpctl peers --json`,
		Long: `STATE is one of these:

  connected     a trusted peer; by relay or by pipe if there is no direct path
  trusted       a trusted peer that is not connected now
  pending       a stranger that called, and waits to be trusted
  discovered    a stranger that announces itself on the network
  blocked       a key that was untrusted

"refuses us" means that the peer does not trust this daemon. "by certificate" means that only an authority of config.yaml
vouches for the peer; such a peer is dialled when somebody calls it. A name in quotes is what a stranger calls itself, and
proves nothing.

AGENTS shows how many agents a connected peer has, and "?" if it does not answer within 2 s. acpctl agents lists them.

SOURCE shows where the first address comes from: worked (connected there, SEEN shows when), static
(config.yaml, trust --addr, an invitation), mdns (announced on the network), call (the stranger called from there). A narrow
terminal cuts the addresses; --json has all.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			peers, err := a.Daemon.Peers(cmd.Context())
			if err != nil {
				return err
			}
			return a.PrintData(client.Peers{Peers: peers}, func() { a.printPeers(peers, a.countAgents(cmd.Context(), peers)) })
		},
	}
}

// printPeers prints a table of peers, with how many agents the connected ones have, and tells a person what to do next.
func (a *app) printPeers(peers []client.Peer, agents map[identity.ID]string) {
	var rows [][]string
	for _, p := range peers {
		state, rtt := string(p.State), "-"
		if p.Certificate != nil {
			state += " by certificate"
		}
		if p.Refuses {
			state += ", refuses us"
		}
		if p.Path != "" && p.Path != client.PathDirect {
			state += " by " + string(p.Path)
		}
		if p.RTTUS != nil {
			rtt = ui.FormatMilliseconds(*p.RTTUS)
		}
		rows = append(rows, []string{ui.FormatPeerName(&p), p.ID.Label(), state, ui.DashIfEmpty(agents[p.ID]), rtt, a.FormatAge(p.LastSeen.Time), ui.DashIfEmpty(string(p.Source)), client.Line(formatAddrs(p.Addrs))})
	}
	a.PrintTable([]string{"NAME", "ID", "STATE", "AGENTS", "RTT", "SEEN", "SOURCE", "ADDRESSES"}, rows)
	for _, p := range peers {
		if p.NameConflict && p.Name == "" {
			a.PrintForPerson("%s is no trusted peer: it claims the name of one", p.ID.Label())
		}
		if p.Refuses {
			a.PrintForPerson("%s does not trust this daemon: acpctl trust there", ui.FormatPeerName(&p))
		}
	}
	switch {
	case len(peers) == 0:
		a.PrintForPerson("to connect another machine: acpctl up, here and there")
	case slices.ContainsFunc(peers, ui.IsStranger):
		a.PrintForPerson("to connect a stranger, on both sides: acpctl trust NAME")
	}
}

// formatAddrs returns addresses in a line. One on a relay it shows without the id, which the line
// has already.
func formatAddrs(addrs []string) string {
	var short []string
	for _, addr := range addrs {
		addr, _, _ = strings.Cut(addr, "/")
		short = append(short, addr)
	}
	return strings.Join(short, " ")
}
