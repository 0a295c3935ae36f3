package oacp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/mailbox"
	oacpmsg "github.com/acpd/acpd/oacp/message"
)

func (o *verbs) newSendCmd() *cobra.Command {
	d := &sendFlags{}
	cmd := &cobra.Command{
		Use:   "send PROJECT",
		Short: "Put a message into the inbox of one or more agents",
		Example: `  acpctl oacp send demo --from planner --to reviewer --type question \
      --subject 'Which branch?' --body 'I am about to merge.'
  git diff | acpctl oacp send demo --from planner --to reviewer,tester \
      --type review_request --subject 'Parser'
  acpctl oacp send demo --from planner --to reviewer --type question \
      --subject 'Ready?' --body 'Say when.' --wait=5m`,
		Long: `Checks a message and puts a copy into the inbox of each recipient and into the
sender's outbox. Nothing is overwritten, and a copy is visible only when it is whole
and on the disk. A first message begins a conversation, which its answers continue.

Exit codes: 0 sent, 1 refused, 2 usage, 3 sent, but not answered in time (--wait) or
not stored there in time (--wait-delivered), 6 not sent, because no daemon answers
and --wait-delivered needs one.`,
		Args:              d.checkArgs,
		ValidArgsFunction: o.completeArgs,
		RunE: o.withReferenceErrors(func(ctx context.Context, args []string) error {
			var missing []string
			for _, name := range []string{"to", "type", "subject"} {
				if !d.given(name) {
					missing = append(missing, "--"+name)
				}
			}
			if len(missing) > 0 {
				return frame.UsageErrorf("missing: %s", strings.Join(missing, ", "))
			}
			var err error
			if d.from, err = findSender(d.from); err != nil {
				return err
			}
			m := &d.letter.Message
			m.To, m.Type, m.Subject, m.Priority = splitNames(d.to), d.typ, d.subject, cmp.Or(d.priority, oacpmsg.DefaultPriority)
			return o.sendAndWait(ctx, args[0], d)
		}),
	}
	d.addFlags(o, cmd)
	f := cmd.Flags()
	f.StringVar(&d.letter.Message.ParentID, "parent-message-id", "", "id of the message answered, in a conversation of its own")
	f.StringVar(&d.letter.InReplyTo, "in-reply-to", "", "id of the message answered; continues its conversation")
	f.BoolVar(&d.letter.NoConversation, "no-conversation", false, "begin no conversation")
	f.BoolVar(&d.letter.Create, "create", false, "make the project and the agents that are missing")
	return cmd
}

// sendAndWait sends a message, prints it and waits as the flags say.
func (o *verbs) sendAndWait(ctx context.Context, project string, d *sendFlags) error {
	h, err := o.findHome()
	if err == nil {
		err = d.readInputs(ctx, o)
	}
	if err != nil {
		return err
	}
	d.letter.Message.From = d.from
	var waiter *mailbox.AnswerWaiter
	if d.wait > 0 && !d.letter.DryRun {
		if waiter, err = (mailbox.Agent{Project: mailbox.Project{Home: h, Name: project}, Name: d.from}).NewAnswerWaiter(); err != nil {
			return err
		}
	}
	var onTheWay *deliveryWatch
	if d.waitDelivered > 0 && !d.letter.DryRun {
		if onTheWay, err = o.watchDeliveries(ctx, project); err != nil {
			return fmt.Errorf("nothing was sent: %w", err)
		}
	}
	s, err := h.SendLetter(project, d.letter)
	if err != nil {
		return d.explainError(err)
	}
	if onTheWay == nil && !d.letter.DryRun {
		if w := o.describeUncarriedMail(ctx, project, s.Message.To); w != "" {
			s.Warnings = append(s.Warnings, w)
		}
	}
	for _, w := range s.Warnings {
		fmt.Fprintln(o.Err, client.Text(w))
	}
	if !d.letter.DryRun {
		o.SetDoneNote("the message was sent, and its id is %s", s.Message.ID)
	}
	report := newSentReport(s, d)
	if !o.JSON {
		o.printSent(s, d)
	}
	if onTheWay != nil {
		failed := onTheWay.awaitDeliveriesWithin(ctx, d.waitDelivered, s)
		switch _, isWithdrawn := errors.AsType[*withdrawnError](failed); {
		case failed == nil:
			report.State = "delivered"
		case isWithdrawn:
			report.State = "withdrawn"
		default:
			report.State = "queued"
		}
		if !o.JSON && !d.quiet {
			o.PrintLine("  state:  %s", report.State)
		}
		if failed != nil {
			return o.reportUnconfirmedSend(ctx, report, failed)
		}
	}
	if waiter == nil {
		return o.printReport(report, func() {})
	}
	answer, failed := o.awaitReply(ctx, waiter, s.Message, d.wait)
	if failed != nil {
		return o.reportUnconfirmedSend(ctx, report, failed)
	}
	report.Answer = newReadReport(answer)
	return o.printReport(report, func() {
		if !d.quiet {
			o.PrintLine("  answer: %s\n", answer.Path)
		}
		o.printMessage(answer)
	})
}

// awaitReply blocks until there is an answer to a message, for at most d.
func (o *verbs) awaitReply(ctx context.Context, w *mailbox.AnswerWaiter, m oacpmsg.Message, d time.Duration) (mailbox.Entry, error) {
	within, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	answer, err := w.AwaitAnswer(within, m)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("there is no answer within %s: a later one will be in the inbox of %s", kinds.FormatDuration(d), m.From)
	}
	return answer, err
}

// sentReport is what send prints with --json: the reference's keys, and then ours.
type sentReport struct {
	MessageID  string   `json:"message_id"`
	From       string   `json:"from"`
	To         any      `json:"to"` // a name, or several
	Type       string   `json:"type"`
	Priority   string   `json:"priority"`
	Subject    string   `json:"subject"`
	Created    string   `json:"created_at_utc"`
	DryRun     bool     `json:"dry_run"`
	Warnings   []string `json:"warnings,omitempty"`
	InboxPath  string   `json:"inbox_path,omitempty"`
	InboxPaths []string `json:"inbox_paths,omitempty"`
	OutboxPath string   `json:"outbox_path,omitempty"`
	YAML       string   `json:"yaml,omitempty"`

	ConversationID string           `json:"conversation_id,omitempty"`
	ParentID       string           `json:"parent_message_id,omitempty"`
	Inherited      *inheritedFields `json:"inherited,omitempty"`
	State          string           `json:"state,omitempty"`  // with --wait-delivered: queued, delivered or withdrawn
	Reason         string           `json:"reason,omitempty"` // why the wait for its delivery or answer ended without one
	Answer         *readReport      `json:"answer,omitempty"`
}

func newSentReport(s mailbox.Sent, d *sendFlags) sentReport {
	m := s.Message
	r := sentReport{
		MessageID: m.ID, From: m.From, To: m.To, Type: m.Type, Priority: m.Priority, Subject: m.Subject, Created: m.Created,
		DryRun: d.letter.DryRun, Warnings: s.Warnings, OutboxPath: s.Outbox,
		ConversationID: m.ConversationID, ParentID: m.ParentID, Inherited: d.inherited,
	}
	if d.letter.DryRun {
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

func (o *verbs) printSent(s mailbox.Sent, d *sendFlags) {
	if d.letter.DryRun {
		fmt.Fprintf(o.Out, "%s", s.Data)
	}
	if d.letter.DryRun || d.quiet {
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

// reportUnconfirmedSend prints why the wait for the delivery or answer of a sent message has ended
// without one. The error sets the exit code.
func (o *verbs) reportUnconfirmedSend(ctx context.Context, report sentReport, why error) error {
	code := frame.ExitTimeout
	if ctx.Err() != nil {
		code, why = frame.ExitInterrupted, errors.New("the wait was interrupted")
	}
	report.Reason = "sent, but " + why.Error()
	err := o.printReport(report, func() { fmt.Fprintf(o.Err, "ERROR: %s\n", client.Text(report.Reason)) })
	return cmp.Or(err, error(frame.Exit(code)))
}
