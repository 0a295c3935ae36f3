package oacp

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/oacp/mailbox"
)

func (o *verbs) newInboxCmd() *cobra.Command {
	var agent, order string
	var all bool
	cmd := &cobra.Command{
		Use:   "inbox PROJECT --agent AGENT|--all",
		Short: "List what waits in an inbox",
		Example: `  acpctl oacp inbox demo --agent reviewer
  acpctl oacp inbox demo --all --json
  acpctl oacp inbox demo --agent reviewer --order name     as the tool oacp prints it`,
		Long: `Lists messages in the order in which they should be processed: P0 first, at the same
priority requests for work or review first, then the oldest; expired ones last.`,
		ValidArgsFunction: o.completeArgs,
		RunE: o.withReferenceErrors(func(_ context.Context, args []string) error {
			if (agent != "") == all {
				return frame.UsageErrorf("expected either --agent AGENT or --all")
			}
			if order != "processing" && order != "name" {
				return frame.UsageErrorf("--order: expected processing or name")
			}
			p, err := o.findProject(args[0])
			if err != nil {
				return err
			}
			l, err := p.ListInboxes(agent, order == "name")
			if err != nil {
				return err
			}
			return o.printReport(l, func() { fmt.Fprint(o.Out, formatListing(l, order == "name")) })
		}),
	}
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "list the inbox of this agent")
	cmd.RegisterFlagCompletionFunc("agent", o.completeAgentFlag)
	f.BoolVar(&all, "all", false, "list the inboxes of all agents")
	f.StringVar(&order, "order", "processing", "processing or name")
	return cmd
}

// formatListing returns a listing as text for people. If bare is not set, it has what the
// reference does not print: the names of the files, and a mark at expired messages.
func formatListing(l mailbox.Listing, bare bool) string {
	var sections []string
	for _, a := range l.Agents {
		s := fmt.Sprintf("INBOX: %s (%s) — %d message", a.Agent, l.Project, a.Count)
		if a.Count != 1 {
			s += "s"
		}
		rows := [][]string{{"#", "From", "Type", "Priority", "Subject", "Age", "File"}}
		for i, m := range a.Messages {
			if m.Expired && !bare {
				m.Age += ", expired"
			}
			rows = append(rows, []string{strconv.Itoa(i + 1), m.From, m.Type, m.Priority, m.Subject, m.Age, m.File})
		}
		if bare {
			for i := range rows {
				rows[i] = rows[i][:6]
			}
		}
		body := "No pending messages."
		if a.Count > 0 {
			body = formatGrid(rows)
		}
		sections = append(sections, s+"\n\n"+body)
	}
	return strings.Join(sections, "\n\n") + "\n"
}

// formatGrid returns a table of Markdown.
func formatGrid(rows [][]string) string {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = client.Line(row[i])
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	var lines []string
	for n, row := range rows {
		line, rule := "|", "|"
		for i, cell := range row {
			line += fmt.Sprintf(" %-*s |", width[i], cell)
			rule += strings.Repeat("-", width[i]+2) + "|"
		}
		lines = append(lines, line)
		if n == 0 {
			lines = append(lines, rule)
		}
	}
	return strings.Join(lines, "\n")
}
