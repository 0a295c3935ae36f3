// Package oacp is the verbs of acpctl oacp. Their texts, JSON and exit codes are those of the
// reference tool: 1 for whatever is refused, 2 for a wrong call. An error of the daemon,
// which that tool does not have, has its own exit code.
package oacp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/internal/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/mailbox"
)

// verbs is the verbs of one run, and their flags.
type verbs struct {
	*frame.Frame
	dir string // --oacp-dir
}

// New returns the command oacp with its verbs.
func New(f *frame.Frame) *cobra.Command {
	o := &verbs{Frame: f}
	cmd := &cobra.Command{
		Use:   "oacp",
		Short: "Mailboxes of OACP: plain files, with or without a daemon",
		Example: `  acpctl oacp init demo --agents planner,reviewer
  acpctl oacp send demo --from planner --to reviewer --type question --subject 'Which branch?' --body 'I am about to merge.'
  acpctl oacp inbox demo --agent reviewer
  acpctl oacp read demo reviewer FILE                  FILE as inbox shows it
  acpctl oacp reply demo FILE --from reviewer --body 'main'
  acpctl oacp done demo reviewer FILE`,
		Long: `Mailboxes of the Open Agent Coordination Protocol, shared with every other tool for
them. Their home is --oacp-dir, else $OACP_HOME, else that of the project which a
marker (.oacp or workspace.json) in the working directory or above leads to, else
~/oacp. Everything works without a daemon but what carries mail to other machines.
Options, output and exit codes are those of the tool oacp.`,
	}
	frame.NeedVerb(cmd)
	cmd.PersistentFlags().StringVar(&o.dir, "oacp-dir", "", "home of the mailboxes (default $OACP_HOME, a marker's or ~/oacp)")
	cmd.AddCommand(
		o.initCmd(), o.sendCmd(), o.replyCmd(), o.inboxCmd(), o.readCmd(), o.doneCmd(),
		o.watchCmd(), o.validateCmd(), o.verifyCmd(), o.doctorCmd(),
		o.bindCmd(), o.unbindCmd(), o.bindingsCmd(), o.queueCmd(),
	)
	return cmd
}

// misuse is the error of a wrong call that is told as the reference does.
type misuse struct{ error }

func misusef(format string, args ...any) error { return misuse{fmt.Errorf(format, args...)} }

// runAsReference makes a verb of f that tells errors, and exits, as the reference does.
func (o *verbs) runAsReference(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd.Context(), args)
		_, told := errors.AsType[frame.Exit](err)
		_, wrong := errors.AsType[frame.UsageError](err)
		_, misused := errors.AsType[misuse](err)
		coded, isCoded := errors.AsType[*kinds.Error](err)
		_, lost := errors.AsType[*ui.UnwrittenError](err)
		switch {
		case err == nil, told, wrong, lost, cmd.Context().Err() != nil:
			return err
		case o.JSON && o.printJSON(map[string]string{"error": err.Error()}, false) == nil:
		case cmd.Name() == "init":
			fmt.Fprintf(o.Err, "Error: %s\n", client.Text(err.Error()))
		default:
			fmt.Fprintf(o.Err, "ERROR: %s\n", client.Text(err.Error()))
		}
		switch {
		case misused:
			return frame.Exit(frame.ExitUsage)
		case isCoded:
			return frame.Exit(frame.ExitCodeOf(coded))
		}
		return frame.Exit(frame.ExitLocal)
	}
}

// printJSON prints v as the reference prints JSON.
func (o *verbs) printJSON(v any, indent bool) error {
	b, err := mailbox.JSON(v, indent)
	if err == nil {
		_, err = o.Out.Write(append(b, '\n'))
	}
	return err
}

func (o *verbs) findHome() (mailbox.Home, error) { return mailbox.FindHome(o.dir) }

func (o *verbs) findProject(name string) (mailbox.Project, error) {
	h, err := o.findHome()
	if err != nil {
		return mailbox.Project{}, err
	}
	return h.Project(name)
}

func (o *verbs) findAgent(project, name string) (mailbox.Agent, error) {
	p, err := o.findProject(project)
	if err != nil {
		return mailbox.Agent{}, err
	}
	return p.Agent(name)
}

// completeAgent completes PROJECT, AGENT and FILE.
func (o *verbs) completeAgent(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	switch len(args) {
	case 0:
		if h, err := o.findHome(); err == nil {
			names, _ = h.Projects()
		}
	case 1:
		if p, err := o.findProject(args[0]); err == nil {
			names, _ = p.Agents()
		}
	case 2:
		if a, err := o.findAgent(args[0], args[1]); err == nil {
			entries, _ := a.Entries()
			for _, e := range entries {
				names = append(names, e.Name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeFlag completes a flag that names an agent of PROJECT.
func (o *verbs) completeFlag(cmd *cobra.Command, args []string, s string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.completeAgent(cmd, args[:1], s)
}

// completeProject completes PROJECT.
func (o *verbs) completeProject(cmd *cobra.Command, args []string, s string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.completeAgent(cmd, args, s)
}

// senderName returns the agent that sends: --from, else $OACP_AGENT or $AGENT_NAME.
func senderName(from string) (string, error) {
	for _, name := range []string{from, strings.TrimSpace(os.Getenv("OACP_AGENT")), strings.TrimSpace(os.Getenv("AGENT_NAME"))} {
		if name != "" {
			return name, nil
		}
	}
	return "", misusef("Cannot infer sender — use --from, OACP_AGENT, or AGENT_NAME.")
}
