// Package oacp has the verbs of acpctl oacp. Their JSON and exit codes are those of the
// reference tool: 1 if something is refused, 2 for a wrong call. An error of the daemon, which
// the reference tool does not have, has the exit code of its code.
package oacp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/mailbox"
)

// verbs holds what the verbs of this package share in one run.
type verbs struct {
	*frame.Frame
	dir string // --oacp-dir
}

// NewOACPCmd returns the command oacp with its verbs.
func NewOACPCmd(f *frame.Frame) *cobra.Command {
	o := &verbs{Frame: f}
	cmd := &cobra.Command{
		Use:   "oacp",
		Short: "Mailboxes of OACP: plain files, with or without a daemon",
		Example: `  acpctl oacp init demo --agents planner,reviewer
  acpctl oacp send demo --from planner --to reviewer --type question \
      --subject 'Which branch?' --body 'I am about to merge.'
  acpctl oacp inbox demo --agent reviewer
  acpctl oacp read demo reviewer FILE                  FILE as inbox shows it
  acpctl oacp reply demo FILE --from reviewer --body 'main'
  acpctl oacp done demo reviewer FILE`,
		Long: `Mailboxes of the Open Agent Coordination Protocol, which other tools can use too.
Their home is --oacp-dir, else $OACP_HOME, else that of the project to which a marker
(.oacp or workspace.json) in the working directory or above leads, else ~/oacp. Only
carrying mail to other machines needs a daemon.
Options, JSON and exit codes are those of the tool oacp, which also makes and checks
signatures and looks for faults in the folders.`,
	}
	frame.RequireVerb(cmd)
	cmd.PersistentFlags().Var((*shellpath.Flag)(&o.dir), "oacp-dir", "home of the mailboxes (default $OACP_HOME, a marker's or ~/oacp)")
	cmd.AddCommand(
		o.newInitCmd(), o.newSendCmd(), o.newReplyCmd(), o.newInboxCmd(), o.newReadCmd(), o.newDoneCmd(),
		o.newWatchCmd(), o.newValidateCmd(),
		o.newBindCmd(), o.newUnbindCmd(), o.newBindingsCmd(), o.newQueueCmd(),
	)
	return cmd
}

// misuseError is the error of a wrong call: the exit code is 2.
type misuseError struct{ error }

func misuseErrorf(format string, args ...any) error { return misuseError{fmt.Errorf(format, args...)} }

// withReferenceErrors returns the function of a verb. It runs f, and reports errors and exits as
// the reference does.
func (o *verbs) withReferenceErrors(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd.Context(), args)
		_, told := errors.AsType[frame.Exit](err)
		_, wrong := errors.AsType[frame.UsageError](err)
		_, misused := errors.AsType[misuseError](err)
		coded, isCoded := errors.AsType[*kinds.Error](err)
		_, lost := errors.AsType[*ui.UnwrittenError](err)
		switch {
		case err == nil, told, wrong, lost, cmd.Context().Err() != nil:
			return err
		case o.JSON && o.printJSON(map[string]string{"error": err.Error()}, false) == nil:
		default:
			fmt.Fprintf(o.Err, "ERROR: %s\n", client.Text(err.Error()))
		}
		switch {
		case misused:
			return frame.Exit(frame.ExitUsage)
		case isCoded:
			return frame.Exit(frame.FindExitCode(coded))
		}
		return frame.Exit(frame.ExitLocal)
	}
}

// printJSON prints v as the reference prints JSON.
func (o *verbs) printJSON(v any, indent bool) error {
	b, err := mailbox.FormatJSON(v, indent)
	if err == nil {
		_, err = o.Out.Write(append(b, '\n'))
	}
	return err
}

// printReport prints v with --json, as the reference does; else it calls printText.
func (o *verbs) printReport(v any, printText func()) error {
	if o.JSON {
		return o.printJSON(v, true)
	}
	printText()
	return nil
}

func (o *verbs) findHome() (mailbox.Home, error) { return mailbox.FindHome(o.dir) }

func (o *verbs) findProject(name string) (mailbox.Project, error) {
	h, err := o.findHome()
	if err != nil {
		return mailbox.Project{}, err
	}
	return h.FindProject(name)
}

func (o *verbs) findAgent(project, name string) (mailbox.Agent, error) {
	p, err := o.findProject(project)
	if err != nil {
		return mailbox.Agent{}, err
	}
	return p.FindAgent(name)
}

// completeArgs completes the arguments that a verb's usage names: PROJECT, AGENT, FILE in that
// agent's inbox, and PEER.
func (o *verbs) completeArgs(cmd *cobra.Command, args []string, begun string) (names []string, _ cobra.ShellCompDirective) {
	var arg string
	if all := frame.ListArgNames(cmd); len(args) < len(all) {
		arg = strings.Trim(all[len(args)], "[]")
	}
	switch {
	case arg == "PROJECT":
		if h, err := o.findHome(); err == nil {
			names, _ = h.ListProjects()
		}
	case arg == "AGENT":
		names = o.listAgents(args[0])
	case arg == "PEER":
		return o.CompletePeers(cmd, nil, begun, client.PeerTrusted, client.PeerConnected)
	case strings.HasSuffix(arg, "FILE") && len(args) == 2:
		if a, err := o.findAgent(args[0], args[1]); err == nil {
			entries, _ := a.ReadInbox()
			for _, e := range entries {
				names = append(names, e.Name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeAgentFlag completes a flag that names an agent of PROJECT.
func (o *verbs) completeAgentFlag(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		names = o.listAgents(args[0])
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// listAgents returns the agents of a project, or none if they cannot be read.
func (o *verbs) listAgents(project string) (names []string) {
	if p, err := o.findProject(project); err == nil {
		names, _ = p.ListAgents()
	}
	return names
}

// findSender returns the agent that sends: --from, else $OACP_AGENT or $AGENT_NAME.
func findSender(from string) (string, error) {
	name := cmp.Or(from, strings.TrimSpace(os.Getenv("OACP_AGENT")), strings.TrimSpace(os.Getenv("AGENT_NAME")))
	if name == "" {
		return "", misuseErrorf("the sender is missing: name it with --from, or in OACP_AGENT or AGENT_NAME")
	}
	return name, nil
}
