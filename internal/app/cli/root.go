// Package cli builds the command line of acpctl: the tree of its verbs, and those verbs that
// need no package of their own. Of the packages below, frame has what all verbs share, ui
// prints, and each of the others has the verbs for one purpose.
package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/harness/run"
	"github.com/acpd/acpd/internal/app/cli/channel"
	"github.com/acpd/acpd/internal/app/cli/connect"
	"github.com/acpd/acpd/internal/app/cli/files"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/meet"
	"github.com/acpd/acpd/internal/app/cli/oacp"
	"github.com/acpd/acpd/internal/app/cli/operate"
	"github.com/acpd/acpd/internal/app/cli/serve"
	"github.com/acpd/acpd/internal/app/cli/talk"
	"github.com/acpd/acpd/internal/app/cli/up"
	"github.com/acpd/acpd/internal/app/cli/watch"
	"github.com/acpd/acpd/internal/buildinfo"
)

// app holds what the verbs of this package share in one run.
type app struct {
	*frame.Frame
	version string
}

// ServeHelper does the work of a helper process and ends this process, if it was started as one
// by acpctl serve --profile. Else it returns at once. It is called first thing in main.
func ServeHelper() { run.ServeHelper() }

// RunCommandLine runs one command line of acpctl with the streams of this process, and returns the exit
// code.
func RunCommandLine(ctx context.Context, args []string) int {
	f := frame.NewFrame()
	return f.Run(ctx, NewRootCmd(f, buildinfo.Read().Version), args)
}

// NewRootCmd returns the tree of all verbs. version is what the program calls itself.
func NewRootCmd(f *frame.Frame, version string) *cobra.Command {
	a := &app{f, version}
	root := &cobra.Command{
		Use:   "acpctl",
		Short: "Talk to agents on other machines, and manage the daemon acpd that carries the messages",
		Long: `acpctl finds the daemon by its state directory: --home, else $ACP_HOME, else ~/.acp. Where ACP_SOCKET names a
socket of the agents' folder it uses only that socket, as the agent of ACP_AGENT and ACP_AGENT_KEY if these are set.

A terminal shows a list as a table. A script gets only the rows: no heads, tabs between the columns, times in UTC, and
nothing for an empty list. With --json every verb prints JSON.

PEER is the name of a trusted peer, its id, or six or more digits with which its id begins. Exit codes: 0 ok, 1 failure
on this machine, 2 usage, 3 timeout, 4 refused, 5 peer unreachable, or no such peer or agent, 6 no daemon, 7 any other
error of the peer, 8 kept for a peer that is away, 130 interrupted.`,
		Example: `  acpctl peers                             who is there
  acpctl ping desk -c 3
  acpctl query desk 'Which branch is deployed?'
  acpctl serve --prompt -- ./answer.sh     answer what others ask`,
	}
	f.Groups = groups
	f.SetUpRoot(root, slices.Concat(operate.NewCmds(f, a.version), (&meet.Verbs{Frame: f}).NewCmds(), talk.NewCmds(f), files.NewCmds(f), watch.NewCmds(f), []*cobra.Command{
		a.newStatusCmd(), a.newPeersCmd(),
		up.NewCmd(f), (&connect.Verbs{Frame: f}).NewCmd(), a.newPingCmd(), a.newDiscoverCmd(), serve.NewCmd(f), a.newMCPCmd(),
		a.newAgentsCmd(), a.newWakeCmd(), a.newApprovalsCmd(),
		a.newPipeCmd(),
		channel.NewChannelCmd(f), oacp.NewOACPCmd(f),
		a.newCompletionCmd(), a.newVersionCmd(),
	})...)
	root.RunE = func(cmd *cobra.Command, _ []string) error { return a.showGroups(cmd) }
	a.addVersionFlag(root)
	return root
}
