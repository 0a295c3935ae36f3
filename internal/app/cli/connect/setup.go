// Package connect is the verb setup of acpctl, which connects agent programs.
package connect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/setup"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// setupFlags are the flags of setup.
type setupFlags struct {
	project, dryRun, undo, yes bool
	name                       string
}

// Verbs has the verb of one run, and what acpctl up does as it does.
type Verbs struct{ *frame.Frame }

// NewCmd returns the verb setup.
func (v *Verbs) NewCmd() *cobra.Command {
	var flags setupFlags
	programs := setup.ListPrograms()
	cmd := &cobra.Command{
		Use:   "setup [" + strings.ToUpper(strings.Join(programs, "|")) + "]",
		Short: "Connect an agent program: claude, codex or opencode",
		Example: `  acpctl setup                      what is installed, and what is connected
  acpctl setup claude               asks before each change, and shows it
  acpctl setup codex --dry-run      shows what would be written
  acpctl setup opencode --undo`,
		Long: `Adds acpctl mcp to the configuration of an agent program. Then its sessions have the tools
acp_peers, acp_query and so on, and peers can send them messages. setup shows each change,
and asks before it writes:

  1. the MCP server acp
  2. that acp_peers, acp_inbox, acp_task and acp_reply need no approval
  3. that acp_query, acp_delegate and acp_notify need none either. With these the model sends
     text to peers by itself, so --yes does not answer this one.
  4. that acp_file needs none. With it the model sends files of the session's folder by itself, so
     --yes does not answer this one either, and a yes to the third does not cover it.
  5. a paragraph about the tools in the user's instructions (CLAUDE.md, AGENTS.md), and a skill
     that explains how to ask and answer

In a change, … means that a part of the line is not shown. The rest of these files does not change. A copy of each file as it
was before is in $XDG_STATE_HOME/acpctl/setup, usually ~/.local/state/acpctl/setup, and --undo removes what setup wrote. Run setup
again after acpctl has moved.

Without a program it lists the programs: their versions, whether they are connected (yes, no,
broken, or other: their server acp is something else), and the file that says so.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("connect one program at a time")
			}
			if len(args) == 1 && !slices.Contains(programs, args[0]) {
				hint := frame.HintForWord(cmd.Root(), args[0], nil)
				if !strings.HasPrefix(hint, "acpctl setup ") && !strings.HasPrefix(hint, "acpctl mcp") {
					if near := identity.FormatSuggestion(args[0], programs, ""); near != "" {
						return fmt.Errorf("setup does not know %q: %s", args[0], near)
					}
					hint = frame.HintMCP("that program")
				}
				return frame.Instead{Err: fmt.Errorf("setup does not know %q, only %s", args[0], strings.Join(programs, ", ")), Type: hint}
			}
			return frame.NamedArgs("[PROGRAM]")(cmd, args)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				programs = nil
			}
			return programs, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return v.runSetup(cmd, args, &flags) },
	}
	f := cmd.Flags()
	f.BoolVar(&flags.project, "project", false, "only for the project in this folder, in its own files")
	f.BoolVar(&flags.dryRun, "dry-run", false, "show what would be written, and write nothing")
	f.BoolVar(&flags.undo, "undo", false, "take out again what setup wrote")
	f.BoolVar(&flags.yes, "yes", false, "never ask: yes to all but sending without approval")
	f.StringVar(&flags.name, "name", "", "name of the sessions as agents (default: that of the program)")
	return cmd
}

// runSetup lists the programs, or sets one up or undoes that.
func (v *Verbs) runSetup(cmd *cobra.Command, args []string, flags *setupFlags) error {
	o, err := v.findSetupOptions(flags)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 0 && cmd.Flags().NFlag() > len(frame.ListGiven(cmd, "home", "json")):
		return frame.UsageErrorf("name a program: %s", strings.Join(setup.ListPrograms(), ", "))
	case len(args) == 0:
		v.PrintForPerson("Asking each program for its version…")
		return v.listPrograms(cmd.Context(), o)
	}
	if flags.project {
		if o.Project, err = os.Getwd(); err != nil {
			return fmt.Errorf("setup: find the project's folder: %w", err)
		}
	}
	defer v.DiscardTyped() // no answer typed ahead goes to the shell
	if flags.undo {
		return v.undoSetup(cmd.Context(), args[0], o, flags)
	}
	return v.setUp(cmd.Context(), args[0], o, flags)
}

// findSetupOptions returns what setup has to know of this user and this acpctl.
func (v *Verbs) findSetupOptions(flags *setupFlags) (o setup.Options, err error) {
	if err := frame.CheckAgentName(flags.name); err != nil {
		return o, err
	}
	if o, err = setup.FindOptions(); err != nil {
		return o, fmt.Errorf("setup: %w", err)
	}
	o.Agent = flags.name
	if o.Command, err = frame.FindOwnPath(); err != nil {
		return o, fmt.Errorf("setup: find the path of acpctl: %w", err)
	}
	usual := filepath.Join(o.Home, ".acp", client.AgentFolder, client.SocketName)
	if o.Socket, err = v.FindAgentSocket(); err != nil {
		return o, fmt.Errorf("setup: %w", err)
	}
	if o.Socket == usual {
		o.Socket = ""
	}
	return o, nil
}

// FindPrograms returns what is known of each agent program.
func (v *Verbs) FindPrograms(ctx context.Context) ([]setup.Status, error) {
	o, err := v.findSetupOptions(&setupFlags{})
	if err != nil {
		return nil, err
	}
	return setup.FindStatus(ctx, o), nil
}

// ConnectProgram does as acpctl setup does, with --yes if yes is set. It reports whether the program is connected, which
// a person can decline.
func (v *Verbs) ConnectProgram(ctx context.Context, program string, yes bool) (bool, error) {
	flags := setupFlags{yes: yes}
	o, err := v.findSetupOptions(&flags)
	if err != nil {
		return false, err
	}
	if err = v.setUp(ctx, program, o, &flags); errors.Is(err, errNotYes) {
		return false, nil
	}
	return err == nil, err
}

// setUp asks for each step of a program's plan, and writes what was accepted.
func (v *Verbs) setUp(ctx context.Context, name string, o setup.Options, flags *setupFlags) error {
	plan, err := setup.NewPlan(name, o)
	if err != nil {
		return frame.UsageErrorf("%w", err)
	}
	if !plan.IsInstalled {
		v.TellLine(fmt.Sprintf("%s is not installed here, or not in PATH: setup prepares its configuration all the same.", plan.Title))
	}
	asks := !flags.yes && !flags.dryRun
	if asks && !v.InTTY {
		return errNobodyToAsk
	}
	shown, accepted, err := v.acceptSteps(ctx, plan, name, flags)
	if err != nil {
		return fmt.Errorf("setup: nothing was written: %w", err)
	}
	if flags.dryRun {
		return v.printSteps(shown)
	}
	written, err := plan.Write()
	if told := v.printWritten(written, accepted == 0); err == nil {
		err = told
	}
	if err != nil {
		return explainUnwritable(err)
	}
	if accepted > 0 {
		v.TellLine(setup.DescribeRestart(&setup.Status{Program: name, Title: plan.Title}))
	}
	v.tellOfDaemon(ctx)
	return nil
}

// acceptSteps shows the steps that would change something, and accepts those that the flags or the
// person says yes to. It returns those that were shown, and how many were accepted.
func (v *Verbs) acceptSteps(ctx context.Context, plan *setup.Plan, name string, flags *setupFlags) (shown []shownStep, accepted int, err error) {
	shown = []shownStep{}
	plan.IsBrief = !flags.dryRun
	for i := range plan.Steps {
		step := &plan.Steps[i]
		diff, note, err := plan.Preview(step)
		if err != nil {
			return nil, 0, err
		}
		if diff == "" {
			if step.Name == setup.StepInstructions && !flags.dryRun {
				plan.Accept(step)
			}
			if note != "" && step.Name != setup.StepServer {
				v.TellLine(note)
			}
			continue
		}
		if flags.yes && !step.IsDefault {
			v.TellLine("--yes does not answer this question: " + step.Question + " acpctl setup " + name + " asks it at a terminal.")
			continue
		}
		shown = append(shown, shownStep{step.Name, step.Question, note, diff})
		v.showStep(step, diff, note, flags)
		if !flags.yes && !flags.dryRun {
			err := v.requireYes(ctx)
			if err == errNotYes && (step.Name == setup.StepSending || step.Name == setup.StepFiles) {
				v.TellLine(plan.Title + " asks you each time, then. To change that: acpctl setup " + name)
			}
			if err == errNotYes && step.Name != setup.StepServer {
				continue
			}
			if err != nil {
				return nil, 0, err
			}
		}
		plan.Accept(step)
		accepted++
	}
	return shown, accepted, nil
}

// shownStep is a step as --dry-run --json prints it.
type shownStep struct {
	Name     string `json:"name"`
	Question string `json:"question"`
	Note     string `json:"note,omitempty"`
	Diff     string `json:"diff"`
}

// printSteps prints as JSON what --dry-run found. For a person it was printed before.
func (v *Verbs) printSteps(shown []shownStep) error {
	return v.PrintData(struct {
		Steps []shownStep `json:"steps"`
	}{shown}, func() {
		if len(shown) == 0 {
			v.PrintLine("nothing to change")
		}
	})
}

// explainUnwritable returns the error of a file that could not be written, with the remedy if
// something forbids that.
func explainUnwritable(err error) error {
	told := fmt.Errorf("setup: %w", err)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return frame.WithHint(told, "a sandbox or file permission forbids it: run this in a terminal of your own")
	}
	return told
}

// errNobodyToAsk is the error of a run that asks, where nobody can answer.
var errNobodyToAsk = frame.UsageErrorf("setup asks before it writes, and standard input is no terminal: --dry-run shows what it would write, and --yes writes it")

// showStep shows what a yes would write, and below it, where it is not scrolled away, the question: on standard
// output if that is all that is wanted.
func (v *Verbs) showStep(step *setup.Step, diff, note string, flags *setupFlags) {
	out, width := v.Err, v.ErrWidth()
	switch {
	case flags.dryRun && v.JSON:
		return
	case flags.dryRun:
		out, width = v.Out, v.OutWidth()
	}
	fmt.Fprintf(out, "\n%s\n%s\n", client.Text(diff), ui.WrapLines(client.Line(step.Question), width))
	if note != "" {
		fmt.Fprintln(out, ui.WrapLines(client.Line(note), width))
	}
}

var errNotYes = errors.New("the answer was not yes")

// requireYes returns errNotYes unless the person answers the question that was shown with yes.
func (v *Verbs) requireYes(ctx context.Context) error {
	yes, err := v.Confirm(ctx, "")
	if err == nil && !yes {
		err = errNotYes
	}
	return err
}

// printWritten prints which files were written, and where what they were before is.
func (v *Verbs) printWritten(written []setup.Written, unchanged bool) error {
	if written == nil {
		written = []setup.Written{}
	}
	if len(written) > 0 {
		v.SetDoneNote("setup has changed %s and so on: acpctl setup says what is connected", written[0].Path)
	}
	return v.PrintData(struct {
		Written []setup.Written `json:"written"`
	}{written}, func() {
		if len(written) == 0 && unchanged {
			v.PrintLine("nothing to change")
		}
		for _, w := range written {
			switch {
			case w.Removed:
				v.PrintLine("removed %s", client.Line(w.Path))
			case w.Backup != "":
				v.PrintLine("wrote %s (before: %s)", client.Line(w.Path), client.Line(w.Backup))
			default:
				v.PrintLine("wrote %s", client.Line(w.Path))
			}
		}
	})
}

// undoSetup takes out what setup wrote, after a yes.
func (v *Verbs) undoSetup(ctx context.Context, name string, o setup.Options, flags *setupFlags) error {
	undo, err := setup.NewUndo(name, o)
	if err != nil {
		return frame.UsageErrorf("%w", err)
	}
	diff, err := undo.Preview()
	if err != nil {
		return fmt.Errorf("setup: nothing was written: %w", err)
	}
	step := &setup.Step{Question: fmt.Sprintf("Take what acpctl setup wrote out of the configuration of %s?", undo.Title)}
	switch {
	case flags.dryRun:
		shown := []shownStep{}
		if diff != "" {
			shown = append(shown, shownStep{Name: "undo", Question: step.Question, Diff: diff})
			v.showStep(step, diff, "", flags)
		}
		return v.printSteps(shown)
	case diff == "":
	case flags.yes:
		v.showStep(step, diff, "", flags)
	case !v.InTTY:
		return errNobodyToAsk
	default:
		v.showStep(step, diff, "", flags)
		if err := v.requireYes(ctx); err != nil {
			return fmt.Errorf("setup: nothing was written: %w", err)
		}
	}
	written, err := undo.Write()
	if told := v.printWritten(written, true); err == nil {
		err = told
	}
	if err != nil {
		return explainUnwritable(err)
	}
	if rules, err := v.Daemon.WakeRules(ctx); err == nil && len(rules.Answers) > 0 {
		v.TellLine("Answers still wake sessions of other programs: acpctl wake answers off ends that.")
	}
	return nil
}

// tellOfDaemon tells a person that no daemon answers, and what to do.
func (v *Verbs) tellOfDaemon(ctx context.Context) {
	if _, err := v.Daemon.Whoami(ctx); err != nil {
		e, _ := v.ClassifyError(ctx, err)
		v.TellLine("The tools need a daemon: " + e.Message)
	}
}

// listPrograms prints what is known of each program.
func (v *Verbs) listPrograms(ctx context.Context, o setup.Options) error {
	o.Project, _ = os.Getwd()
	all := setup.FindStatus(ctx, o)
	rows := make([][]string, len(all))
	for i, s := range all {
		version := s.Version
		if s.Path == "" {
			version = "not installed"
		} else if version == "" {
			version = "unknown"
		}
		rows[i] = []string{s.Program, version, string(s.Connected), s.Config}
		if s.Connected == setup.NotConnected {
			rows[i][3] = ""
		}
	}
	if err := v.PrintList(struct {
		Programs []setup.Status `json:"programs"`
	}{all}, []string{"PROGRAM", "VERSION", "CONNECTED", "CONFIGURATION"}, rows); err != nil {
		return err
	}
	for _, s := range all {
		switch {
		case s.Problem != "":
			v.TellLine(s.Program + ": " + s.Problem)
		case s.Path != "" && s.Connected == setup.NotConnected:
			v.TellLine("acpctl setup " + s.Program + " connects it")
		}
		if s.Project != "" && s.ProjectServer == setup.Foreign {
			v.TellLine(fmt.Sprintf("%s: in this folder, %s gives it another server acp: if you let %s start that one, it replaces acpctl", s.Program, s.Project, s.Title))
		}
	}
	v.tellOfDaemon(ctx)
	return nil
}
