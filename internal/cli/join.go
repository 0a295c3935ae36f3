package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/cli/frame"
)

func (a *app) newJoinCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "join [URI]",
		Short: "Accept an invitation of another daemon",
		Example: `  acpctl join                       then paste the line that acpctl invite printed
  ssh desk.example acpctl invite | acpctl join`,
		Long: `Accepts an invitation: from then on the two daemons trust each other. Give it on
standard input rather than as an argument: other users of this machine can read
command lines, and shells remember them. A script reads the peer's name on standard output;
what to do next goes to standard error.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			uri := frame.FirstOrEmpty(args)
			if len(args) == 0 {
				if a.InTTY {
					a.PrintForPerson("Paste the invitation:")
				}
				var err error
				if uri, err = a.ReadLine(cmd.Context()); err != nil {
					return err
				}
			}
			if uri == "" {
				return frame.UsageErrorf("URI: empty: give the line that acpctl invite printed on the other machine")
			}
			if _, err := identity.ParseInvitation(uri); err != nil {
				return frame.UsageErrorf("%w", err)
			}
			peer, err := a.Daemon.Join(cmd.Context(), uri)
			if err != nil {
				return err
			}
			return a.PrintData(peer, func() {
				a.printTrusted(peer)
				a.tellOfJoin(peer.Name)
			})
		},
	}
}

// tellOfJoin tells what holds after a join, and what to do next. It is told also if no person reads:
// join often runs through ssh, without a terminal.
func (a *app) tellOfJoin(name string) {
	a.tell(fmt.Sprintf("This daemon and %s trust each other now: agents on both sides may send messages.", name))
	a.tell(fmt.Sprintf("Next: acpctl ping %s; and acpctl setup, on each side, to connect an agent program.", name))
}
