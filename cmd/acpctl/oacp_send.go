package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/oacp/mailbox"
	letters "github.com/acpd/acpd/oacp/message"
)

// letter is the flags of send and reply.
type letter struct {
	from, to, typ, subject   string
	body, bodyFile           string
	priority                 string
	contextKeys, contextFile string
	expires                  string
	message                  letters.Message // what needs no reading
	inReplyTo, suffix        string
	noConversation, create   bool
	dryRun, quiet, sign      bool
	wait, waitDelivered      time.Duration
	inherited                *inherited
	given                    func(flag string) bool
}

func (l *letter) flags(o *oacp, cmd *cobra.Command) {
	f := cmd.Flags()
	m := &l.message
	l.given = f.Changed
	f.StringVar(&l.from, "from", "", "the sender (default $OACP_AGENT or $AGENT_NAME)")
	f.StringVar(&l.to, "to", "", "the recipient, or several with commas")
	f.StringVar(&l.typ, "type", "", "one of "+strings.Join(letters.Types(), ", "))
	f.StringVar(&l.subject, "subject", "", "what it is about, in one line")
	f.StringVar(&l.body, "body", "", "the text (default: standard input, unless it is a terminal)")
	f.StringVar(&l.bodyFile, "body-file", "", "file of the text, - for standard input")
	f.StringVar(&l.priority, "priority", "", "P0 to P3 (default P2, of a reply that of the message)")
	f.StringVar(&m.RelatedPR, "related-pr", "", "number of a pull request")
	f.StringVar(&m.RelatedPacket, "related-packet", "", "id of a work packet")
	f.StringVar(&m.ConversationID, "conversation-id", "", "the conversation (default: that of the message answered, else a new one)")
	f.StringVar(&l.contextKeys, "context-keys", "", "what the recipient should know of, as text")
	f.StringVar(&l.contextFile, "context-keys-file", "", "file of that text")
	f.StringVar(&l.expires, "expires", "", "after how long it is out of date: 30m, 12h, 2d")
	f.StringVar(&m.Channel, "channel", "", "a word to sort by, for example review")
	f.StringVar(&m.AutonomyHint, "autonomy-hint", "", "auto_proceed: advice to the recipient")
	f.BoolVar(&l.sign, "sign", false, "sign it with the sender's keys, of oacp key gen (default as signing.sign_messages in the sender's config.yaml)")
	f.StringVar(&l.suffix, "suffix", "", "word at the end of the file's name")
	f.BoolVar(&l.dryRun, "dry-run", false, "print the message, write nothing")
	f.BoolVar(&l.quiet, "quiet", false, "print nothing if it is sent")
	f.DurationVar(&l.wait, "wait", 0, "wait for the answer and print it; exit code 3 if none comes in time")
	f.Lookup("wait").NoOptDefVal = "10m"
	f.DurationVar(&l.waitDelivered, "wait-delivered", 0, "wait until it is stored where the recipients live, and say so; exit code 3 if that takes longer")
	f.Lookup("wait-delivered").NoOptDefVal = "2m"
	cmd.RegisterFlagCompletionFunc("from", o.completeFlag)
	cmd.RegisterFlagCompletionFunc("to", o.completeFlag)
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(letters.Types(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions(letters.Priorities(), cobra.ShellCompDirectiveNoFileComp))
}

func (o *oacp) sendCmd() *cobra.Command {
	l := &letter{}
	cmd := &cobra.Command{
		Use:   "send PROJECT",
		Short: "Put a message into the inbox of one or more agents",
		Example: `  acpctl oacp send demo --from planner --to reviewer --type question --subject 'Which branch?' --body 'I am about to merge.'
  git diff | acpctl oacp send demo --from planner --to reviewer,tester --type review_request --subject 'Parser' --priority P1
  acpctl oacp send demo --from planner --to reviewer --type question --subject 'Ready?' --body 'Say when.' --wait=5m`,
		Long: `Checks a message and puts a copy into the inbox of each recipient and into the
sender's outbox. Nothing is overwritten, and nothing is seen before it is whole and
on the disk. A first message begins a conversation, which its answers continue.

Exit codes: 0 sent, 1 refused, 2 usage, 3 sent, but not answered (--wait) or not
stored there (--wait-delivered) in time.`,
		Args:              words("PROJECT"),
		ValidArgsFunction: o.completeProject,
		RunE: o.run(func(ctx context.Context, args []string) error {
			var missing []string
			for _, name := range []string{"to", "type", "subject"} {
				if !l.given(name) {
					missing = append(missing, "--"+name)
				}
			}
			if len(missing) > 0 {
				return usagef("the following arguments are required: %s", strings.Join(missing, ", "))
			}
			var err error
			if l.from, err = sender(l.from); err != nil {
				return err
			}
			l.message.To, l.message.Type, l.message.Subject = split(l.to), l.typ, l.subject
			l.message.Priority = cmp.Or(l.priority, letters.DefaultPriority)
			return o.send(ctx, args[0], l)
		}),
	}
	l.flags(o, cmd)
	f := cmd.Flags()
	f.StringVar(&l.message.ParentID, "parent-message-id", "", "id of the message answered, in a conversation of its own")
	f.StringVar(&l.inReplyTo, "in-reply-to", "", "id of the message answered; continues its conversation")
	f.BoolVar(&l.noConversation, "no-conversation", false, "begin no conversation")
	f.BoolVar(&l.create, "create", false, "make the project and the agents that are missing")
	return cmd
}

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
	State          string      `json:"state,omitempty"` // with --wait-delivered: queued or delivered
	Answer         *readReport `json:"answer,omitempty"`
}

func (o *oacp) send(ctx context.Context, project string, l *letter) error {
	h, err := o.home()
	if err == nil {
		err = l.fill(ctx, o)
	}
	if err != nil {
		return err
	}
	l.message.From = l.from
	var waiter *mailbox.Waiter
	if l.wait > 0 && !l.dryRun {
		if waiter, err = (mailbox.Agent{Project: mailbox.Project{Home: h, Name: project}, Name: l.from}).Waiter(); err != nil {
			return err
		}
	}
	var d *deliveries
	if l.waitDelivered > 0 && !l.dryRun {
		if d, err = o.deliveries(ctx); err != nil {
			return err
		}
		defer d.stop()
	}
	s, err := h.Send(project, mailbox.Letter{
		Message: l.message, InReplyTo: l.inReplyTo, NoConversation: l.noConversation,
		Suffix: l.suffix, Create: l.create, DryRun: l.dryRun, Sign: l.sign,
	})
	if err != nil {
		return err
	}
	for _, w := range s.Warnings {
		fmt.Fprintln(o.err, client.Text(w))
	}
	report := reportSent(s, l)
	if !o.json {
		o.saySent(s, l)
	}
	if d != nil {
		var failed error
		report.State, failed = mailDelivered, d.awaitFor(ctx, l.waitDelivered, project, s.Inboxes)
		if failed != nil {
			report.State = mailQueued
		}
		if !o.json && !l.quiet {
			o.say("  state:  %s", report.State)
		}
		if failed != nil {
			return o.overdue(report, failed)
		}
	}
	if waiter == nil {
		if o.json {
			return o.lines(report, true)
		}
		return nil
	}
	answer, failed := o.await(ctx, waiter, s.Message, l.wait)
	if failed != nil {
		return o.overdue(report, failed)
	}
	if o.json {
		r := reportRead(answer)
		report.Answer = &r
		return o.lines(report, true)
	}
	if !l.quiet {
		o.say("  answer: %s\n", answer.Path)
	}
	return o.show(answer)
}

// overdue tells that a message was sent, and that what was to follow did not.
func (o *oacp) overdue(report sentReport, cause error) error {
	if !o.json {
		return cause
	}
	if err := o.lines(report, true); err != nil {
		return err
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return exit(exitTimeout)
	}
	return cause
}

func (o *oacp) await(ctx context.Context, w *mailbox.Waiter, m letters.Message, d time.Duration) (mailbox.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return w.Answer(ctx, m)
}

func reportSent(s mailbox.Sent, l *letter) sentReport {
	m := s.Message
	r := sentReport{
		MessageID: m.ID, From: m.From, To: m.To, Type: m.Type, Priority: m.Priority, Subject: m.Subject, Created: m.Created,
		DryRun: l.dryRun, Signed: len(s.KIDs) > 0, KIDs: s.KIDs, Warnings: s.Warnings, OutboxPath: s.Outbox,
		ConversationID: m.ConversationID, ParentID: m.ParentID, Inherited: l.inherited,
	}
	if l.dryRun {
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

func (o *oacp) saySent(s mailbox.Sent, l *letter) {
	if l.dryRun {
		fmt.Fprintf(o.out, "%s", s.Data)
	}
	if l.dryRun || l.quiet {
		return
	}
	o.say("OK: %s", s.Message.ID)
	for _, path := range s.Inboxes {
		o.say("  inbox:  %s", path)
	}
	o.say("  outbox: %s", s.Outbox)
	if l.inherited != nil {
		o.say("  inherited: %s", client.Line(l.inherited.String()))
	}
}

// fill reads and checks what must be right before anything is done.
func (l *letter) fill(ctx context.Context, o *oacp) (err error) {
	m := &l.message
	if !slices.Contains(letters.Types(), m.Type) {
		return usagef("argument --type: invalid choice: '%s' (choose from %s)", m.Type, strings.Join(letters.Types(), ", "))
	}
	if !slices.Contains(letters.Priorities(), m.Priority) {
		return usagef("argument --priority: invalid choice: '%s' (choose from %s)", m.Priority, strings.Join(letters.Priorities(), ", "))
	}
	if l.wait < 0 {
		return usagef("--wait: expected a duration like 30s")
	}
	if l.waitDelivered < 0 {
		return usagef("--wait-delivered: expected a duration like 30s")
	}
	if m.Body, err = l.text(ctx, o); err != nil {
		return err
	}
	m.ContextKeys = l.contextKeys
	if l.contextFile != "" {
		if m.ContextKeys, err = textFile("context-keys", l.contextFile); err != nil {
			return err
		}
	}
	if l.expires != "" {
		if m.Expires, err = letters.ExpiresAfter(l.expires, time.Now()); err != nil {
			return misuse{err}
		}
	}
	return nil
}

// text is the body: --body-file, else --body, else standard input.
func (l *letter) text(ctx context.Context, o *oacp) (string, error) {
	switch {
	case l.bodyFile == "-" && o.inTTY:
		return "", misusef("--body-file - specified but stdin is a terminal (no piped input)")
	case l.given("body-file") && l.bodyFile != "-":
		return textFile("body", l.bodyFile)
	case !l.given("body-file") && l.given("body"):
		return l.body, nil
	case o.inTTY:
		return "", misusef("no message body provided — use --body, --body-file, or pipe to stdin")
	}
	text, err := o.readAll(ctx)
	if err == nil && !utf8.ValidString(text) {
		err = misusef("standard input is not UTF-8 text")
	}
	return lines(text), err
}

// textFile reads a file of text, up to what a message file can hold.
func textFile(what, path string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", misusef("%s file not found: %s", what, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", misuse{err}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, letters.MaxBytes+1))
	switch {
	case err != nil:
		return "", misuse{err}
	case len(b) > letters.MaxBytes:
		return "", misusef("%s file %s: over %d bytes, more than a message may have", what, path, letters.MaxBytes)
	case !utf8.Valid(b):
		return "", misusef("%s file %s: not UTF-8 text", what, path)
	}
	return lines(string(b)), nil
}

// lines ends every line of a text with LF alone.
func lines(text string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
}
