package meet

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
)

func (v *Verbs) newUntrustCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "untrust PEER",
		Short: "Stop trusting a peer, and block its key",
		Example: `  acpctl untrust laptop
  acpctl trust --name desk \
      9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		Long: `It ends the connections to the peer at once, removes from the inbox what the peer sent, and its files
that you have not saved, fails its delegations, ends the invitation that it has used, and blocks its key until you trust the
full id. An invitation for several daemons ends for all of them, because the peer knows it and could come back with another
key. Invitations that nobody has used stay open (see invite --list).`,
		RunE: func(cmd *cobra.Command, args []string) error {
			peer, err := v.Daemon.Untrust(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return v.PrintData(peer, func() {
				told := peer.ID.String()
				if v.OutTTY && len(peer.Unwritten) == 0 && !peer.Already {
					told = peer.Name + " is cut off and stays blocked, and what it has sent is gone: acpctl trust " + told + " lifts that"
				}
				v.PrintLine("%s", told)
				switch {
				case len(peer.Unwritten) > 0:
					v.warnUnwrittenUntrust(peer)
				case peer.Already:
					v.Warn("%s is blocked already", peer.Name)
				}
			})
		},
	}
}

// warnUnwrittenUntrust tells what is not on the disk yet. It tells scripts too: a restart may be
// next.
func (v *Verbs) warnUnwrittenUntrust(peer *client.Untrusted) {
	v.Warn("%s is cut off, but not all of it is on disk (%s): %s. The daemon tries again until it is.",
		peer.Name, strings.Join(peer.Unwritten, ", "), client.Line(peer.Reason))
	if slices.Contains(peer.Unwritten, client.PartTrust) {
		v.Tell("Until then a restart of acpd trusts %s again. Free some space; then acpctl untrust %s says that it is blocked already, and no more.", peer.Name, peer.ID)
	}
}
