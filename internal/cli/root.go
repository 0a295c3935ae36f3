// Package cli is the command line of acpctl: the tree of its verbs, and those verbs that
// need no package of their own. Its packages: frame, what all verbs share; ui, what draws;
// channel and oacp, the verbs of these names.
package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/cli/channel"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/internal/cli/oacp"
)

// app is the verbs of this package in one run.
type app struct {
	*frame.Frame
	version string
}

// Run runs one command line of acpctl with the streams of this process, and returns the exit
// code. version is the program's; "" stands for the module's.
func Run(ctx context.Context, version string, args []string) int {
	f := frame.New()
	return f.Run(ctx, New(f, version), args)
}

// New returns the tree of all verbs.
func New(f *frame.Frame, version string) *cobra.Command {
	a := &app{f, releaseOf(version)}
	root := &cobra.Command{
		Use:   "acpctl",
		Short: "Talk to other agents through the daemon acpd",
		Long: `acpctl talks to other agents through the daemon acpd, which it finds by its state
directory: --home, else $ACP_HOME, else ~/.acp. Where ACP_SOCKET names a socket of the
agents' folder it uses that and no directory, as ACP_AGENT with ACP_AGENT_KEY if set.

PEER is a trusted peer's name, its id or six or more digits that begin it. Exit
codes: 0 ok, 1 failure on this machine, 2 usage, 3 timeout, 4 refused, 5 peer
unreachable or unknown, 6 no daemon, 7 any other error of the peer, 130 interrupted.`,
		Example: `  acpctl peers                                        who is there
  acpctl trust desk                                   and on desk: acpctl trust laptop
  acpctl ping desk -c 3
  acpctl query desk 'Which branch is deployed?'
  acpctl serve --prompt -- ./answer.sh                answer what others ask`,
	}
	f.Prepare(root,
		a.statusCmd(), a.whoamiCmd(), a.peersCmd(),
		a.pingCmd(), a.queryCmd(), a.delegateCmd(), a.notifyCmd(), a.cancelCmd(), a.discoverCmd(),
		a.tasksCmd(), a.waitCmd(), a.inboxCmd(), a.serveCmd(),
		a.inviteCmd(), a.joinCmd(), a.trustCmd(), a.untrustCmd(),
		channel.New(f), oacp.New(f),
		a.completionCmd(), a.versionCmd(),
	)
	a.addVersionFlag(root)
	return root
}
