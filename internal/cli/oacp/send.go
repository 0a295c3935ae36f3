package oacp

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
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/oacp/mailbox"
	oacpmsg "github.com/acpd/acpd/oacp/message"
)

// draft is the flags of send and reply.
type draft struct {
	from, to, typ, subject   string
	body, bodyFile           string
	priority                 string
	contextKeys, contextFile string
	expires                  string
	message                  oacpmsg.Message // what needs no reading
	inReplyTo, suffix        string
	noConversation, create   bool
	dryRun, quiet, sign      bool
	wait, waitDelivered      time.Duration
	inherited                *inherited
	given                    func(flag string) bool
}

func (d *draft) addFlags(o *verbs, cmd *cobra.Command) {
	f := cmd.Flags()
	m := &d.message
	d.given = f.Changed
	f.StringVar(&d.from, "from", "", "the sender (default $OACP_AGENT or $AGENT_NAME)")
	f.StringVar(&d.to, "to", "", "the recipient, or several with commas")
	f.StringVar(&d.typ, "type", "", "one of "+strings.Join(oacpmsg.Types(), ", "))
	f.StringVar(&d.subject, "subject", "", "what it is about, in one line")
	f.StringVar(&d.body, "body", "", "the text (default: standard input, unless it is a terminal)")
	f.StringVar(&d.bodyFile, "body-file", "", "file of the text, - for standard input")
	f.StringVar(&d.priority, "priority", "", "P0 to P3 (default P2, of a reply that of the message)")
	f.StringVar(&m.RelatedPR, "related-pr", "", "number of a pull request")
	f.StringVar(&m.RelatedPacket, "related-packet", "", "id of a work packet")
	f.StringVar(&m.ConversationID, "conversation-id", "", "the conversation (default: that of the message answered, else a new one)")
	f.StringVar(&d.contextKeys, "context-keys", "", "what the recipient should know of, as text")
	f.StringVar(&d.contextFile, "context-keys-file", "", "file of that text")
	f.StringVar(&d.expires, "expires", "", "after how long it is out of date: 30m, 12h, 2d")
	f.StringVar(&m.Channel, "channel", "", "a word to sort by, for example review")
	f.StringVar(&m.AutonomyHint, "autonomy-hint", "", "auto_proceed: advice to the recipient")
	f.BoolVar(&d.sign, "sign", false, "sign it with the sender's keys, of oacp key gen (default as signing.sign_messages in the sender's config.yaml)")
	f.StringVar(&d.suffix, "suffix", "", "word at the end of the file's name")
	f.BoolVar(&d.dryRun, "dry-run", false, "print the message, write nothing")
	f.BoolVar(&d.quiet, "quiet", false, "print nothing if it is sent")
	f.DurationVar(&d.wait, "wait", 0, "wait for the answer and print it; exit code 3 if none comes in time")
	f.Lookup("wait").NoOptDefVal = "10m"
	f.DurationVar(&d.waitDelivered, "wait-delivered", 0, "wait until it is stored where the recipients live, and say so; exit code 3 if that takes longer")
	f.Lookup("wait-delivered").NoOptDefVal = "2m"
	cmd.RegisterFlagCompletionFunc("from", o.completeFlag)
	cmd.RegisterFlagCompletionFunc("to", o.completeFlag)
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(oacpmsg.Types(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions(oacpmsg.Priorities(), cobra.ShellCompDirectiveNoFileComp))
}

// checkArgs checks the arguments of send or reply. A duration among them was meant for a flag.
func (d *draft) checkArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := frame.NamedArgs(names...)(cmd, args)
		for _, arg := range args {
			if _, bad := time.ParseDuration(arg); err == nil || bad != nil {
				continue
			}
			for _, flag := range []string{"wait", "wait-delivered"} {
				if d.given(flag) {
					return fmt.Errorf("a time that belongs to --%s stands behind =: --%[1]s=%s", flag, arg)
				}
			}
		}
		return err
	}
}

func (o *verbs) sendCmd() *cobra.Command {
	d := &draft{}
	cmd := &cobra.Command{
		Use:   "send PROJECT",
		Short: "Put a message into the inbox of one or more agents",
		Example: `  acpctl oacp send demo --from planner --to reviewer --type question --subject 'Which branch?' --body 'I am about to merge.'
  git diff | acpctl oacp send demo --from planner --to reviewer,tester --type review_request --subject 'Parser' --priority P1
  acpctl oacp send demo --from planner --to reviewer --type question --subject 'Ready?' --body 'Say when.' --wait=5m`,
		Long: `Checks a message and puts a copy into the inbox of each recipient and into the
sender's outbox. Nothing is overwritten, and nothing is seen before it is whole and
on the disk. A first message begins a conversation, which its answers continue.

Exit codes: 0 sent, 1 refused, 2 usage, 3 sent, but not seen to be answered (--wait)
or stored there (--wait-delivered), 6 not sent, as no daemon answers, which
--wait-delivered needs.`,
		Args:              d.checkArgs("PROJECT"),
		ValidArgsFunction: o.completeProject,
		RunE: o.runAsReference(func(ctx context.Context, args []string) error {
			var missing []string
			for _, name := range []string{"to", "type", "subject"} {
				if !d.given(name) {
					missing = append(missing, "--"+name)
				}
			}
			if len(missing) > 0 {
				return frame.Usagef("the following arguments are required: %s", strings.Join(missing, ", "))
			}
			var err error
			if d.from, err = senderName(d.from); err != nil {
				return err
			}
			d.message.To, d.message.Type, d.message.Subject = splitNames(d.to), d.typ, d.subject
			d.message.Priority = cmp.Or(d.priority, oacpmsg.DefaultPriority)
			return o.sendDraft(ctx, args[0], d)
		}),
	}
	d.addFlags(o, cmd)
	f := cmd.Flags()
	f.StringVar(&d.message.ParentID, "parent-message-id", "", "id of the message answered, in a conversation of its own")
	f.StringVar(&d.inReplyTo, "in-reply-to", "", "id of the message answered; continues its conversation")
	f.BoolVar(&d.noConversation, "no-conversation", false, "begin no conversation")
	f.BoolVar(&d.create, "create", false, "make the project and the agents that are missing")
	return cmd
}

// sendDraft sends a message, prints it and waits as the flags say.
func (o *verbs) sendDraft(ctx context.Context, project string, d *draft) error {
	h, err := o.findHome()
	if err == nil {
		err = d.readInputs(ctx, o)
	}
	if err != nil {
		return err
	}
	d.message.From = d.from
	var waiter *mailbox.Waiter
	if d.wait > 0 && !d.dryRun {
		if waiter, err = (mailbox.Agent{Project: mailbox.Project{Home: h, Name: project}, Name: d.from}).Waiter(); err != nil {
			return err
		}
	}
	var onTheWay *deliveryWatch
	if d.waitDelivered > 0 && !d.dryRun {
		if onTheWay, err = o.watchDeliveries(ctx, project); err != nil {
			return fmt.Errorf("nothing was sent: %w", err)
		}
		defer onTheWay.stop()
	}
	s, err := h.Send(project, mailbox.Letter{
		Message: d.message, InReplyTo: d.inReplyTo, NoConversation: d.noConversation,
		Suffix: d.suffix, Create: d.create, DryRun: d.dryRun, Sign: d.sign,
	})
	if err != nil {
		return d.explainError(err)
	}
	if onTheWay == nil && !d.dryRun {
		if w := o.warnIfNotCarried(ctx, project, s.Message.To); w != "" {
			s.Warnings = append(s.Warnings, w)
		}
	}
	for _, w := range s.Warnings {
		fmt.Fprintln(o.Err, client.Text(w))
	}
	if !d.dryRun {
		o.NoteDone("the message was sent, and its id is %s", s.Message.ID)
	}
	report := newSentReport(s, d)
	if !o.JSON {
		o.printSent(s, d)
	}
	if onTheWay != nil {
		failed := onTheWay.awaitWithin(ctx, d.waitDelivered, s)
		switch _, isWithdrawn := errors.AsType[*withdrawn](failed); {
		case failed == nil:
			report.State = mailDelivered
		case isWithdrawn:
			report.State = mailWithdrawn
		default:
			report.State = mailQueued
		}
		if !o.JSON && !d.quiet {
			o.PrintLine("  state:  %s", report.State)
		}
		if failed != nil {
			return o.tellNotSeen(ctx, report, failed)
		}
	}
	if waiter == nil {
		if o.JSON {
			return o.printJSON(report, true)
		}
		return nil
	}
	answer, failed := o.awaitAnswer(ctx, waiter, s.Message, d.wait)
	if failed != nil {
		return o.tellNotSeen(ctx, report, failed)
	}
	if o.JSON {
		r := newReadReport(answer)
		report.Answer = &r
		return o.printJSON(report, true)
	}
	if !d.quiet {
		o.PrintLine("  answer: %s\n", answer.Path)
	}
	return o.printMessage(answer)
}

// awaitAnswer blocks for at most d until there is an answer to a message.
func (o *verbs) awaitAnswer(ctx context.Context, w *mailbox.Waiter, m oacpmsg.Message, d time.Duration) (mailbox.Entry, error) {
	within, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	answer, err := w.Answer(within, m)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("there is no answer within %s: one will lie in the inbox of %s", d, m.From)
	}
	return answer, err
}

// explainError adds to an error where the conversation id comes from, if no flag gave it.
func (d *draft) explainError(err error) error {
	if !d.given("conversation-id") && strings.Contains(err.Error(), "field 'conversation_id'") {
		return fmt.Errorf("%w: the conversation_id is that of the message answered; --conversation-id sets another", err)
	}
	return err
}

// readInputs reads the body and the context, and checks the flags, before anything is done.
func (d *draft) readInputs(ctx context.Context, o *verbs) (err error) {
	m := &d.message
	if !slices.Contains(oacpmsg.Types(), m.Type) {
		return frame.Usagef("argument --type: invalid choice: '%s' (choose from %s)", m.Type, strings.Join(oacpmsg.Types(), ", "))
	}
	if !slices.Contains(oacpmsg.Priorities(), m.Priority) {
		return frame.Usagef("argument --priority: invalid choice: '%s' (choose from %s)", m.Priority, strings.Join(oacpmsg.Priorities(), ", "))
	}
	if d.given("wait") && d.wait <= 0 {
		return frame.Usagef("--wait: expected a duration like 30s")
	}
	if d.given("wait-delivered") && d.waitDelivered <= 0 {
		return frame.Usagef("--wait-delivered: expected a duration like 30s")
	}
	if m.Body, err = d.readBody(ctx, o); err != nil {
		return err
	}
	m.ContextKeys = d.contextKeys
	if d.contextFile != "" {
		if m.ContextKeys, err = readTextFile("context-keys", d.contextFile); err != nil {
			return err
		}
	}
	if d.expires != "" {
		if m.Expires, err = oacpmsg.ExpiresAfter(d.expires, time.Now()); err != nil {
			return misuse{err}
		}
	}
	return nil
}

// readBody returns the body: of --body-file, else --body, else standard input.
func (d *draft) readBody(ctx context.Context, o *verbs) (string, error) {
	switch {
	case d.bodyFile == "-" && o.InTTY:
		return "", misusef("--body-file - specified but stdin is a terminal (no piped input)")
	case d.given("body-file") && d.bodyFile != "-":
		return readTextFile("body", d.bodyFile)
	case !d.given("body-file") && d.given("body"):
		return d.body, nil
	case o.InTTY:
		return "", misusef("no message body provided — use --body, --body-file, or pipe to stdin")
	}
	text, err := o.ReadStdin(ctx)
	if err == nil && !utf8.ValidString(text) {
		err = misusef("standard input is not UTF-8 text")
	}
	return normalizeLineEnds(text), err
}

// readTextFile returns the text of a file that a message can hold.
func readTextFile(what, path string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", misusef("%s file not found: %s", what, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", misuse{err}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, oacpmsg.MaxBytes+1))
	switch {
	case err != nil:
		return "", misuse{err}
	case len(b) > oacpmsg.MaxBytes:
		return "", misusef("%s file %s: over %d bytes, more than a message may have", what, path, oacpmsg.MaxBytes)
	case !utf8.Valid(b):
		return "", misusef("%s file %s: not UTF-8 text", what, path)
	}
	return normalizeLineEnds(string(b)), nil
}

// normalizeLineEnds returns text with LF alone at the end of each line.
func normalizeLineEnds(text string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
}
