package oacp

import (
	"context"
	"errors"
	"fmt"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/oacp/mailbox"
)

// sentReport is what send prints with --json: the reference's keys and, at the end, ours.
type sentReport struct {
	MessageID  string   `json:"message_id"`
	From       string   `json:"from"`
	To         any      `json:"to"` // a name, or several
	Type       string   `json:"type"`
	Priority   string   `json:"priority"`
	Subject    string   `json:"subject"`
	Created    string   `json:"created_at_utc"`
	DryRun     bool     `json:"dry_run"`
	Signed     bool     `json:"signed,omitzero"`
	KIDs       []string `json:"kids,omitempty"`
	Warnings   []string `json:"warnings,omitempty"`
	InboxPath  string   `json:"inbox_path,omitempty"`
	InboxPaths []string `json:"inbox_paths,omitempty"`
	OutboxPath string   `json:"outbox_path,omitempty"`
	YAML       string   `json:"yaml,omitempty"`

	ConversationID string      `json:"conversation_id,omitempty"`
	ParentID       string      `json:"parent_message_id,omitempty"`
	Inherited      *inherited  `json:"inherited,omitempty"`
	State          string      `json:"state,omitempty"`  // with --wait-delivered: queued, delivered or withdrawn
	Reason         string      `json:"reason,omitempty"` // why it was not seen to be delivered or answered
	Answer         *readReport `json:"answer,omitempty"`
}

func newSentReport(s mailbox.Sent, d *draft) sentReport {
	m := s.Message
	r := sentReport{
		MessageID: m.ID, From: m.From, To: m.To, Type: m.Type, Priority: m.Priority, Subject: m.Subject, Created: m.Created,
		DryRun: d.dryRun, Signed: len(s.KIDs) > 0, KIDs: s.KIDs, Warnings: s.Warnings, OutboxPath: s.Outbox,
		ConversationID: m.ConversationID, ParentID: m.ParentID, Inherited: d.inherited,
	}
	if d.dryRun {
		r.YAML = string(s.Data)
	}
	if r.InboxPaths = s.Inboxes; len(m.To) == 1 {
		r.To = m.To[0]
		if r.InboxPaths = nil; len(s.Inboxes) == 1 {
			r.InboxPath = s.Inboxes[0]
		}
	}
	return r
}

func (o *verbs) printSent(s mailbox.Sent, d *draft) {
	if d.dryRun {
		fmt.Fprintf(o.Out, "%s", s.Data)
	}
	if d.dryRun || d.quiet {
		return
	}
	o.PrintLine("OK: %s", s.Message.ID)
	for _, path := range s.Inboxes {
		o.PrintLine("  inbox:  %s", path)
	}
	o.PrintLine("  outbox: %s", s.Outbox)
	if d.inherited != nil {
		o.PrintLine("  inherited: %s", client.Line(d.inherited.String()))
	}
}

// tellNotSeen tells why a sent message was not seen to be delivered or answered. The error
// sets the exit code.
func (o *verbs) tellNotSeen(ctx context.Context, report sentReport, why error) error {
	code := frame.ExitTimeout
	if ctx.Err() != nil {
		code, why = frame.ExitInterrupted, errors.New("the wait was interrupted")
	}
	report.Reason = "sent, but " + why.Error()
	if !o.JSON {
		fmt.Fprintf(o.Err, "ERROR: %s\n", client.Text(report.Reason))
		return frame.Exit(code)
	}
	if err := o.printJSON(report, true); err != nil {
		return err
	}
	return frame.Exit(code)
}
