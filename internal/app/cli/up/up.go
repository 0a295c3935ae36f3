// Package up is the verb up of acpctl, which leads from installed programs to connected agents.
//
// It is a row of steps. Each asks the daemon or the files whether it is done, asks the person before
// it changes something of theirs, and can be interrupted and repeated. Nobody is trusted, and no peer
// may wake a session, unless a person types that at a terminal: --yes is no answer to it.
package up

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/setup"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/connect"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/meet"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// run is one run of up.
type run struct {
	*frame.Frame
	meet    *meet.Verbs
	connect *connect.Verbs

	yes   bool
	name  string
	given identity.Invitation // of the command line; may be zero
	asks  bool                // a person is at the terminal, and can be asked

	me        *client.Whoami
	programs  []setup.Status // those that are installed
	connected []setup.Status // of these, those that this run has connected
	met       identity.ID    // the peer that this run has found; zero before
	offered   []client.Peer  // strangers that were shown, by their numbers
	left      []string       // what was left out, and what to type for it
}

// NewCmd returns the verb, which asks what setup, join and trust ask as they do it.
func NewCmd(f *frame.Frame) *cobra.Command {
	var yes bool
	var name string
	cmd := &cobra.Command{
		Use:   "up [INVITATION]",
		Short: "Start acpd, connect your agent programs and meet another machine",
		Example: `  acpctl up                         the same on both machines
  acpctl up --name desk             what the daemon calls itself, if this starts it
  acpctl up --yes                   asks only what nobody else may answer`,
		Long: `Goes from an installed program to connected agents, step by step:

  1. acpd runs, as your service where there is a service manager
  2. Claude Code, Codex and OpenCode are connected, as acpctl setup does it
  3. another machine is a trusted peer: you paste its line, or get a line for it
  4. you say whose questions may begin a turn of your sessions

Each step says what it does, and asks before it changes something of yours. What is done
already is left as it is, so it can be interrupted and typed again.

--yes answers what acpctl setup --yes answers, and whether acpd is to be your service. Whom you
trust and who may wake a session, only a person at a terminal can say. Without a
terminal nobody is asked or waited for, and what was left out is told at the end.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.AsGuest:
				return frame.UsageErrorf("ACP_SOCKET is set, as in the shell of an agent: the owner of the daemon types acpctl up in a shell of their own")
			case f.JSON:
				return frame.UsageErrorf("--json: up speaks with a person: leave it out")
			case name != "":
				if err := identity.CheckName(name); err != nil {
					return frame.UsageErrorf("--name: %w", err)
				}
			}
			u := &run{Frame: f, meet: &meet.Verbs{Frame: f}, connect: &connect.Verbs{Frame: f}, yes: yes, name: name, asks: f.InTTY && !f.IsInBackground()}
			if len(args) > 0 {
				var err error
				if u.given, err = u.meet.ParseArgument(args[0]); err != nil {
					return err
				}
			}
			defer f.DiscardTyped() // no answer typed ahead goes to the shell
			return u.runSteps(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "yes to all but whom to trust, who may wake a session, and sending without approval")
	cmd.Flags().StringVar(&name, "name", "", "what the daemon calls itself, if this starts it (default the host name)")
	return cmd
}

func (u *run) runSteps(ctx context.Context) error {
	for _, step := range []func(context.Context) error{u.startDaemon, u.connectPrograms, u.findPeer, u.askWhoMayWake, u.tellAll} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// printSummary prints a line of the summary.
func (u *run) printSummary(format string, args ...any) {
	u.PrintLine("%s", ui.WrapLines(fmt.Sprintf(format, args...), u.OutWidth()))
}

// ring rings the bell of the terminal: somebody who may have gone away is to answer.
func (u *run) ring() {
	if u.ErrTTY {
		fmt.Fprint(u.Err, "\a")
	}
}

// leaveOut notes what this run does not do. It is printed at the end.
func (u *run) leaveOut(format string, args ...any) {
	u.left = append(u.left, client.Line(fmt.Sprintf(format, args...)))
}

// confirm asks a question that --yes answers too. A no, and a missing terminal, leave out what it is about.
func (u *run) confirm(ctx context.Context, question, what string) (yes bool, err error) {
	if u.yes {
		u.Tell("%s yes (--yes)", question)
		return true, nil
	}
	if u.asks {
		yes, err = u.Confirm(ctx, question)
	}
	if err == nil && !yes {
		u.leaveOut("%s", what)
	}
	return yes, err
}

// lookPause is between two calls of look while a person may type.
const lookPause = 500 * time.Millisecond

// readWhile reads a line. Before, and meanwhile again and again, it calls look, and returns over as soon as that does.
func (u *run) readWhile(ctx context.Context, look func() (over bool, err error)) (line string, over bool, err error) {
	for {
		if over, err := look(); over || err != nil {
			return "", over, err
		}
		bounded, cancel := context.WithTimeout(ctx, lookPause)
		line, err := u.ReadLine(bounded)
		cancel()
		if ctx.Err() != nil {
			return "", false, ctx.Err()
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			return line, false, err
		}
	}
}
