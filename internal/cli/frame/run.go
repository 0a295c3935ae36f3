// Package frame is what every verb of acpctl shares: the streams and flags of one run, the
// client of the daemon, how arguments are read and completed, and how an error becomes text
// and an exit code. The packages of verbs get a [Frame] and return their commands; they
// know nothing of each other.
package frame

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/ui"
)

// DaemonPatience is how long the own daemon may take for what it answers by itself: more
// than a disk that is busy needs, and less than a person waits.
const DaemonPatience = 5 * time.Second

// Frame is one run of acpctl.
type Frame struct {
	ui.Terminal
	Home    string        // --home
	AsGuest bool          // ACP_SOCKET is set: the run goes through the agents' socket
	Daemon  client.Client // of the daemon that the flags and the environment name

	understood bool     // the command line was understood
	inTaken    bool     // an argument was read from In
	read       []string // what else than the command line was read for arguments, and how much
	misnamed   error    // why there is no help for what it was asked about
}

// New returns the frame of this process.
func New() *Frame {
	f := &Frame{Terminal: ui.NewTerminal()}
	f.Daemon.Patience = DaemonPatience
	return f
}

// Run runs one command line with the tree below root, which [Frame.Prepare] made, and
// returns the exit code.
func (f *Frame) Run(ctx context.Context, root *cobra.Command, args []string) int {
	f.GuardOutput()
	root.SetOut(f.Out)
	root.SetErr(f.Err)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	err = cmp.Or(err, f.misnamed)
	code := 0
	if _, ok := errors.AsType[*ui.UnwrittenError](err); err != nil && !ok {
		code = f.report(ctx, cmd, args, err)
	}
	if f.TellUnwritten(cmd.CommandPath()) && code == 0 {
		return ExitLocal
	}
	return code
}

// ChooseDaemon points the client at the daemon that the flags and the environment name.
// With ACP_SOCKET that is a socket of the agents' folder, and there is no state directory.
func (f *Frame) ChooseDaemon() error {
	_, set, err := client.AgentSocket()
	switch {
	case err != nil:
		return UsageError{err}
	case set && f.Home != "":
		return Usagef("--home: ACP_SOCKET is set, and an agent speaks through that socket alone: leave the flag out")
	case set:
		f.AsGuest = true
		f.Daemon.As = client.SpeakParams{Name: os.Getenv("ACP_AGENT"), Key: os.Getenv("ACP_AGENT_KEY")}
		if f.Daemon.As.Key == "" {
			f.Daemon.As = client.SpeakParams{}
		}
	case f.Home != "":
		f.Daemon.Socket = filepath.Join(f.Home, client.SocketName)
	}
	f.understood = true
	return nil
}
