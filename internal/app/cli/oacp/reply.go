package oacp

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/oacp/mailbox"
	oacpmsg "github.com/acpd/acpd/oacp/message"
)

// inheritedFields holds what a reply has taken from the message that it answers.
type inheritedFields struct {
	To             []string `json:"to,omitempty"`
	Type           string   `json:"type,omitempty"`
	Priority       string   `json:"priority,omitempty"`
	Subject        string   `json:"subject,omitempty"`
	ConversationID string   `json:"conversation_id,omitempty"`
	ParentID       string   `json:"parent_message_id"`
}

func (i *inheritedFields) String() string {
	var b strings.Builder
	for _, f := range [][2]string{
		{"to", strings.Join(i.To, ",")}, {"type", i.Type}, {"priority", i.Priority},
		{"conversation_id", i.ConversationID}, {"parent_message_id", i.ParentID}, {"subject", i.Subject},
	} {
		if f[1] != "" {
			fmt.Fprintf(&b, " %s=%s", f[0], f[1])
		}
	}
	return strings.TrimSpace(b.String())
}

func (o *verbs) newReplyCmd() *cobra.Command {
	d := &sendFlags{}
	cmd := &cobra.Command{
		Use:   "reply PROJECT ID|FILE",
		Short: "Answer a message",
		Example: `  acpctl oacp reply demo FILE --from reviewer --body 'main'
  acpctl oacp reply demo msg-20260101120000-planner-0a1b --from reviewer \
      --type review_lgtm --body 'Good.'`,
		Long: `Answers a message that the sender has in its inbox, its archive or its outbox. What
you do not give is taken from the message and listed: the recipient (its sender; of
a message of one's own, its recipients), the priority, the subject after Re:, the
conversation, and the type that answers its type, if there is only one:

  question, task_request, brainstorm_…   notification
  handoff                                handoff_complete
  review_feedback                        review_addressed
  review_request, review_addressed       review_feedback or review_lgtm: say which

Exit codes: as of send.`,
		Args:              d.checkArgs,
		ValidArgsFunction: o.completeArgs,
		RunE: o.withReferenceErrors(func(ctx context.Context, args []string) error {
			var err error
			if d.from, err = findSender(d.from); err != nil {
				return err
			}
			a, err := o.findAgent(args[0], d.from)
			if err != nil {
				return err
			}
			parent, err := a.FindMessage(args[1])
			if err == nil {
				err = addPathToError(parent.Path, parent.Err)
			}
			if err == nil && parent.Message.ID == "" {
				err = fmt.Errorf("%s has no id, so it cannot be answered", parent.Path)
			}
			if err == nil {
				err = d.inheritFields(a, parent)
			}
			if err != nil {
				return err
			}
			return o.sendAndWait(ctx, args[0], d)
		}),
	}
	d.addFlags(o, cmd)
	return cmd
}

// inheritFields fills fields that no flag has set from the parent message.
func (d *sendFlags) inheritFields(a mailbox.Agent, parent mailbox.Entry) error {
	r := a.DraftReply(parent.Message)
	m, i := &d.letter.Message, &inheritedFields{ParentID: r.ParentID}
	m.ParentID = r.ParentID
	if m.To = splitNames(d.to); len(m.To) == 0 {
		m.To, i.To = r.To, r.To
	}
	take := func(given, theirs string, noted *string) string {
		if given == "" {
			*noted = theirs
		}
		return cmp.Or(given, theirs)
	}
	m.Priority = cmp.Or(take(d.priority, r.Priority, &i.Priority), oacpmsg.DefaultPriority)
	m.Subject = take(d.subject, r.Subject, &i.Subject)
	m.ConversationID = take(m.ConversationID, r.ConversationID, &i.ConversationID)
	if m.Type = take(d.typ, r.Type, &i.Type); m.Type == "" {
		choices := oacpmsg.ListReplyTypes(parent.Message.Type)
		if len(choices) == 0 {
			return frame.UsageErrorf("a %s needs no answer: choose the type of yours with --type", parent.Message.Type)
		}
		return frame.UsageErrorf("say with --type whether this is %s", strings.Join(choices, " or "))
	}
	d.inherited = i
	return nil
}
