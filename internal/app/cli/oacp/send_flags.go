package oacp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/oacp/mailbox"
	oacpmsg "github.com/acpd/acpd/oacp/message"
)

// sendFlags holds the flags of send and reply, and what is sent.
type sendFlags struct {
	from, to, typ, subject   string
	body, bodyFile           string
	priority                 string
	contextKeys, contextFile string
	expires                  string
	letter                   mailbox.Letter // the flags of these names, and then what is sent
	quiet                    bool
	wait, waitDelivered      time.Duration
	inherited                *inheritedFields
	given                    func(flag string) bool
}

func (d *sendFlags) addFlags(o *verbs, cmd *cobra.Command) {
	f := cmd.Flags()
	m := &d.letter.Message
	d.given = f.Changed
	f.StringVar(&d.from, "from", "", "the sender (default $OACP_AGENT or $AGENT_NAME)")
	f.StringVar(&d.to, "to", "", "the recipient, or several with commas")
	f.StringVar(&d.typ, "type", "", "one of "+strings.Join(oacpmsg.ListMessageTypes(), ", "))
	f.StringVar(&d.subject, "subject", "", "what it is about, in one line")
	f.StringVar(&d.body, "body", "", "the text (default: standard input, unless it is a terminal)")
	f.Var((*shellpath.Flag)(&d.bodyFile), "body-file", "file of the text, - for standard input")
	f.StringVar(&d.priority, "priority", "", "P0 to P3 (default P2, of a reply that of the message)")
	f.StringVar(&m.RelatedPR, "related-pr", "", "number of a pull request")
	f.StringVar(&m.RelatedPacket, "related-packet", "", "id of a work packet")
	f.StringVar(&m.ConversationID, "conversation-id", "", "the conversation (default: that of the message answered, else a new one)")
	f.StringVar(&d.contextKeys, "context-keys", "", "text about what the recipient should know")
	f.Var((*shellpath.Flag)(&d.contextFile), "context-keys-file", "file of that text")
	f.StringVar(&d.expires, "expires", "", "when it is out of date: after 30m, 12h, 2d")
	f.StringVar(&m.Channel, "channel", "", "a word to sort by, for example review")
	f.StringVar(&m.AutonomyHint, "autonomy-hint", "", "auto_proceed: advice to the recipient")
	f.StringVar(&d.letter.Suffix, "suffix", "", "word at the end of the file's name")
	f.BoolVar(&d.letter.DryRun, "dry-run", false, "print the message, write nothing")
	f.BoolVar(&d.quiet, "quiet", false, "print nothing if it is sent")
	f.DurationVar(&d.wait, "wait", 0, "wait for the answer and print it; exit code 3 if it does not come in time")
	f.Lookup("wait").NoOptDefVal = "10m"
	f.DurationVar(&d.waitDelivered, "wait-delivered", 0, "wait until it is stored where the recipients live; exit code 3 if that takes longer")
	f.Lookup("wait-delivered").NoOptDefVal = "2m"
	cmd.RegisterFlagCompletionFunc("from", o.completeAgentFlag)
	cmd.RegisterFlagCompletionFunc("to", o.completeAgentFlag)
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(oacpmsg.ListMessageTypes(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions(oacpmsg.ListPriorities(), cobra.ShellCompDirectiveNoFileComp))
}

// checkArgs checks the arguments of send or reply. A duration among them is meant as the value of
// a flag.
func (d *sendFlags) checkArgs(cmd *cobra.Command, args []string) error {
	err := frame.NamedArgs(frame.ListArgNames(cmd)...)(cmd, args)
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

// explainError adds to the error of a wrong conversation id that no flag has given where it is
// from.
func (d *sendFlags) explainError(err error) error {
	if !d.given("conversation-id") && strings.Contains(err.Error(), "field 'conversation_id'") {
		return fmt.Errorf("%w: the conversation_id is that of the message answered; --conversation-id sets another", err)
	}
	return err
}

// readInputs checks the flags and reads the body and the context, before anything is sent.
func (d *sendFlags) readInputs(ctx context.Context, o *verbs) (err error) {
	m := &d.letter.Message
	if !slices.Contains(oacpmsg.ListMessageTypes(), m.Type) {
		return frame.UsageErrorf("--type %q: use one of %s", m.Type, strings.Join(oacpmsg.ListMessageTypes(), ", "))
	}
	if !slices.Contains(oacpmsg.ListPriorities(), m.Priority) {
		return frame.UsageErrorf("--priority %q: use one of %s", m.Priority, strings.Join(oacpmsg.ListPriorities(), ", "))
	}
	if d.given("wait") && d.wait <= 0 {
		return frame.UsageErrorf("--wait: expected a duration like 30s")
	}
	if d.given("wait-delivered") && d.waitDelivered <= 0 {
		return frame.UsageErrorf("--wait-delivered: expected a duration like 30s")
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
		if m.Expires, err = oacpmsg.ParseExpiry(d.expires, time.Now()); err != nil {
			return misuseError{err}
		}
	}
	return nil
}

// readBody returns the body: of --body-file, else --body, else standard input.
func (d *sendFlags) readBody(ctx context.Context, o *verbs) (string, error) {
	switch {
	case d.bodyFile == "-" && o.InTTY:
		return "", misuseErrorf("--body-file -: standard input is a terminal: give the text with --body, or pipe it in")
	case d.given("body-file") && d.bodyFile != "-":
		return readTextFile("body", d.bodyFile)
	case !d.given("body-file") && d.given("body"):
		return d.body, nil
	case o.InTTY:
		return "", misuseErrorf("the message has no body: give it with --body or --body-file, or pipe it in")
	}
	text, err := o.ReadStdin(ctx)
	if err == nil && !utf8.ValidString(text) {
		err = misuseErrorf("standard input is not UTF-8 text")
	}
	return normalizeLineEnds(text), err
}

// readTextFile returns the text of a file that a message can hold.
func readTextFile(what, path string) (string, error) {
	b, err := mailbox.ReadFileOrLink(path)
	switch {
	case err != nil:
		return "", misuseErrorf("%s file: %w", what, err)
	case !utf8.Valid(b):
		return "", misuseErrorf("%s file %s: not UTF-8 text", what, path)
	}
	return normalizeLineEnds(string(b)), nil
}

// normalizeLineEnds returns text in which every line ends with LF.
func normalizeLineEnds(text string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
}
