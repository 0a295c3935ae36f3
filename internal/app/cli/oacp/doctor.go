package oacp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/oacp/mailbox"
)

func (o *verbs) newDoctorCmd() *cobra.Command {
	var project, output string
	var fix bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with the mailboxes",
		Example: `  acpctl oacp doctor --project demo
  acpctl oacp doctor --project demo --fix`,
		Long: `Looks at the home and at a project: its files, messages that wait for long, files
among them that are no sound messages, and the status of its agents; and whether the
daemon, if one runs, carries mail of this home, and knows of an agent that is hosted at
a peer too. What waits for another machine, and
why, tells acpctl oacp queue.

Exit codes: 0 also with warnings, 1 with errors.`,
		RunE: o.withReferenceErrors(func(ctx context.Context, _ []string) error {
			h, err := o.findHome()
			if err != nil {
				return err
			}
			r := h.Diagnose(project, fix)
			r.Categories = append(r.Categories, o.examineDaemon(ctx, project)...)
			text, bare := o.formatReport(r, project, o.ColourText), o.formatReport(r, project, func(_, s string) string { return s })
			if o.JSON {
				b, err := mailbox.FormatJSON(r, true)
				if err != nil {
					return err
				}
				text, bare = string(b)+"\n", string(b)+"\n"
			}
			fmt.Fprint(o.Out, text)
			if output != "" {
				if err := os.WriteFile(output, []byte(bare), 0o666); err != nil {
					return err
				}
				fmt.Fprintf(o.Err, "\nReport saved to %s\n", output)
			}
			if r.HasErrors {
				return frame.Exit(frame.ExitLocal)
			}
			return nil
		}),
	}
	f := cmd.Flags()
	f.StringVar(&project, "project", "", "look at this project too")
	f.BoolVar(&fix, "fix", false, "make missing inboxes and status files, refresh stale ones, remove what killed tools left")
	f.VarP((*shellpath.Flag)(&output), "output", "o", "save the report to this file too")
	return cmd
}

// formatReport returns a report as text for people.
func (o *verbs) formatReport(r mailbox.Report, project string, paint func(colour, s string) string) string {
	var b strings.Builder
	if len(r.Fixed) > 0 {
		b.WriteString("Auto-fixed:\n")
		for _, line := range r.Fixed {
			fmt.Fprintf(&b, "  - %s\n", client.Line(line))
		}
		b.WriteString("\n")
	}
	mark := func(s mailbox.Severity) string {
		m := map[mailbox.Severity][2]string{
			mailbox.Fine: {ui.Green, "[+]"}, mailbox.Note: {"", "[i]"}, mailbox.Warn: {ui.Yellow, "[!]"}, mailbox.Bad: {ui.Red, "[x]"},
		}[s]
		return paint(m[0], m[1])
	}
	warnings := 0
	for _, c := range r.Categories {
		fmt.Fprintf(&b, "%s %s\n", mark(c.Worst), c.Name)
		for _, f := range c.Results {
			if f.Severity == mailbox.Warn {
				warnings++
			}
			fmt.Fprintf(&b, "    %s %s\n", mark(f.Severity), client.Line(f.Message))
			if f.Hint != "" {
				fmt.Fprintf(&b, "        %s\n", client.Line(f.Hint))
			}
		}
		b.WriteString("\n")
	}
	if project == "" {
		b.WriteString("Only the home was looked at: --project PROJECT looks into a project.\n")
	}
	if warnings > 0 {
		fmt.Fprintf(&b, "Warnings, marked [!]: %d\n", warnings)
	}
	switch {
	case r.HasErrors:
		b.WriteString(paint(ui.Red, "Doctor found issues that need attention.") + "\n")
	case warnings > 0:
		b.WriteString(paint(ui.Yellow, "No errors found.") + "\n")
	default:
		b.WriteString(paint(ui.Green, "No issues found.") + "\n")
	}
	return b.String()
}

// examineDaemon returns what the doctor finds if the daemon answers within a second: that the
// daemon carries mail of other mailboxes, or knows of agents that are hosted on two machines.
func (o *verbs) examineDaemon(ctx context.Context, project string) []mailbox.Category {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var findings []mailbox.Finding
	err := o.checkDaemonHome(ctx)
	switch other, ok := errors.AsType[*otherHomeError](err); {
	case ok:
		findings = append(findings, mailbox.Finding{Name: "daemon", Severity: mailbox.Warn, Message: other.problem, Hint: other.remedy})
	case err == nil:
		twins, _ := o.Daemon.OACPTwins(ctx, project)
		for _, t := range twins {
			findings = append(findings, mailbox.Finding{
				Name: t.Agent, Severity: mailbox.Warn, Message: fmt.Sprintf("%s of project %s — hosted here and at %s: mail for it stays where it is sent", t.Agent, t.Project, t.Peer),
				Hint: fmt.Sprintf("Give one of the two another name; or, if it only lives at %s, acpctl oacp bind %s %s %s --take", t.Peer, t.Project, t.Agent, t.Peer),
			})
		}
	}
	if findings == nil {
		return nil
	}
	return []mailbox.Category{{Name: "Daemon", Worst: mailbox.Warn, Results: findings}}
}
