package oacp

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/internal/cli/ui"
	"github.com/acpd/acpd/oacp/mailbox"
)

func (o *verbs) doctorCmd() *cobra.Command {
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
		Args:              frame.NamedArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: o.runAsReference(func(ctx context.Context, _ []string) error {
			h, err := o.findHome()
			if err != nil {
				return err
			}
			r := h.Examine(project, fix)
			r.Categories = append(r.Categories, o.examineDaemon(ctx, project)...)
			text, bare := o.formatReport(r, project, o.Paint), o.formatReport(r, project, func(_, s string) string { return s })
			if o.JSON {
				b, err := mailbox.JSON(r, true)
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
	f.StringVarP(&output, "output", "o", "", "save the report to this file too")
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
			mailbox.Fine: {ui.Green, "[+]"}, mailbox.Note: {"", "[-]"}, mailbox.Warn: {ui.Yellow, "[!]"}, mailbox.Bad: {ui.Red, "[x]"},
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
