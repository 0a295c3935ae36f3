// Package frame holds what every verb of acpctl shares: the streams and flags of one run, the
// client of the daemon, how arguments are read and completed, and how an error becomes text
// and an exit code. The packages of verbs get a [Frame] and return their commands. They
// know nothing of each other.
package frame

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/shellpath"
)

// DaemonPatience bounds how long the own daemon may take for what it answers by itself. It is
// more than a busy disk needs, and less than a person waits.
const DaemonPatience = 5 * time.Second

// Frame holds what the verbs share in one run of acpctl.
type Frame struct {
	ui.Terminal
	Home    string        // --home
	AsGuest bool          // ACP_SOCKET is set: the run goes through the agents' socket
	Daemon  client.Client // of the daemon that the flags and the environment name

	Groups []Group // of the program's verbs, in its help
	Verb   string  // that runs, as it is typed: acpctl wake allow

	MachineRoot string // before the paths of the machine; "" outside of tests

	understood bool     // the command line was understood
	inTaken    bool     // an argument was read from In
	inputEnded bool     // the last line that was read was the end of In
	read       []string // which files and streams were read for arguments, and how much
	misnamed   error    // why there is no help for the verb that was asked about

	reading chan lineRead // of a line that nobody waits for any more; nil if no line is read
}

// NewFrame returns the frame of this process.
func NewFrame() *Frame {
	f := &Frame{Terminal: ui.NewTerminal()}
	f.Daemon.Patience = DaemonPatience
	return f
}

// SetUpRoot adds to root the verbs, the flags of every verb and the help.
func (f *Frame) SetUpRoot(root *cobra.Command, verbs ...*cobra.Command) {
	RequireVerb(root)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkFlagsNotEmpty(cmd, "home", "name", "addr", "revoke", "key-file", "file"); err != nil {
			return err
		}
		f.Verb = cmd.CommandPath()
		return f.ChooseDaemon()
	}
	root.SetFlagErrorFunc(f.explainFlagError)
	flags := root.PersistentFlags()
	flags.Var((*shellpath.Flag)(&f.Home), "home", "state directory of the daemon (default $ACP_HOME or ~/.acp)")
	flags.BoolVar(&f.JSON, "json", false, "print JSON, one object a line; most verbs of oacp indent it")
	for _, verb := range verbs {
		f.addVerbDefaults(verb)
	}
	root.AddCommand(verbs...)
	root.SetHelpCommand(f.newHelpCmd())
	root.InitDefaultHelpCmd()
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if cmd.HasAvailableSubCommands() && len(splitUsage(cmd)) == 0 {
			f.misnamed = checkNoUnknownVerb(cmd, cmd.Flags().Args())
		}
		if f.misnamed == nil {
			io.WriteString(f.Out, f.formatHelp(cmd))
		}
	})
}

// RequireVerb makes cmd return an error if no verb of its own follows.
func RequireVerb(cmd *cobra.Command) {
	cmd.Args = checkNoUnknownVerb
	cmd.RunE = func(*cobra.Command, []string) error { return UsageErrorf("name a verb") }
}

// Run runs one command line with the tree below root, which [Frame.SetUpRoot] made, and
// returns the exit code.
func (f *Frame) Run(ctx context.Context, root *cobra.Command, args []string) int {
	f.GuardOutput()
	args = joinKeepValue(args)
	root.SetOut(f.Out)
	root.SetErr(f.Err)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	err = cmp.Or(err, f.misnamed)
	if err != nil && cmd == root { // what is wrong behind a word that is no verb does not matter
		for i, arg := range args {
			if !strings.HasPrefix(arg, "-") && (i == 0 || args[i-1] != "--home") {
				if findVerb(root, arg) == nil {
					err = reportUnknownVerb(root, args[i:])
				}
				break
			}
		}
	}
	code := 0
	if _, ok := errors.AsType[*ui.UnwrittenError](err); err != nil && !ok {
		code = f.reportError(ctx, cmd, args, err)
	}
	if f.ReportUnwritten(cmd.CommandPath()) && code == 0 {
		return ExitLocal
	}
	return code
}

// Warn writes a line to standard error as Tell does, behind the verb that runs.
func (f *Frame) Warn(format string, args ...any) error {
	return f.Tell("%s: %s", f.Verb, client.Line(fmt.Sprintf(format, args...)))
}

// ChooseDaemon points the client at the daemon that the flags and the environment name.
// With ACP_SOCKET that is a socket of the agents' folder, and there is no state directory.
func (f *Frame) ChooseDaemon() error {
	_, set, err := client.AgentSocket()
	switch {
	case err != nil:
		return UsageError{err}
	case set && f.Home != "":
		return UsageErrorf("--home: ACP_SOCKET is set, and an agent uses only that socket: leave the flag out")
	case set:
		f.AsGuest = true
		f.Daemon.SpeakAs = client.SpeakParams{Name: os.Getenv("ACP_AGENT"), Key: os.Getenv("ACP_AGENT_KEY")}
		if f.Daemon.SpeakAs.Key == "" {
			f.Daemon.SpeakAs = client.SpeakParams{}
		}
	default:
		home := f.Home
		if home == "" {
			if home, err = client.Home(); err != nil {
				break // as the first call of the client says
			}
		}
		f.Daemon.Socket = filepath.Join(home, client.SocketName)
	}
	f.understood = true
	return nil
}
