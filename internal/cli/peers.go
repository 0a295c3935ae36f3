package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/internal/cli/ui"
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
		Args:              frame.NamedArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			peers, err := a.Daemon.Peers(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(client.Peers{Peers: peers})
			}
			var rows [][]string
			var refusing []string
			stranger := false
			for _, p := range peers {
				rows = append(rows, []string{ui.ShowName(&p), p.ID.Label(), describeState(&p), formatRTT(p.RTTUS), a.FormatAge(p.LastSeen.Time), ui.OrDash(string(p.Source)), client.Line(strings.Join(p.Addrs, " "))})
				stranger = stranger || p.State == client.PeerPending || p.State == client.PeerDiscovered
				if p.Refuses {
					refusing = append(refusing, ui.ShowName(&p))
				}
			}
			a.PrintTable([]string{"NAME", "ID", "STATE", "RTT", "SEEN", "SOURCE", "ADDRESSES"}, rows)
			for _, name := range refusing {
				a.TellPerson("%s does not trust this daemon: acpctl trust there", name)
			}
			switch {
			case len(rows) == 0:
				a.TellPerson("start acpd on another machine of this network, or connect one anywhere: acpctl invite")
			case stranger:
				a.TellPerson("to connect a stranger, on both sides: acpctl trust NAME")
			}
			return nil
		},
	}
}

// describeState returns a peer's state, and whether it refuses this daemon.
func describeState(p *client.Peer) string {
	if p.Refuses {
		return string(p.State) + ", refuses us"
	}
	return string(p.State)
}

// formatRTT returns a round trip, "-" if there was none.
func formatRTT(us *uint64) string {
	if us == nil {
		return "-"
	}
	return ui.FormatMilliseconds(*us)
}
