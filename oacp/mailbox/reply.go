package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acpd/acpd/oacp/message"
)

// maxSubject is the most characters that a subject may have.
const maxSubject = 200

// Reply returns the beginning of an answer from the agent to a message that it has:
// to whom, subject, priority, conversation and parent, and the type where the
// specification names one for an answer. An answer to a message of its own goes
// to whom that went.
func (a Agent) Reply(parent message.Message) message.Message {
	m := message.Message{
		From: a.Name, To: []string{parent.From}, Priority: parent.Priority,
		Subject: parent.Subject, ConversationID: parent.ConversationID, ParentID: parent.ID,
	}
	if parent.From == a.Name {
		m.To = slices.Clone(parent.To)
	}
	if types := message.ReplyTypes(parent.Type); len(types) == 1 {
		m.Type = types[0]
	}
	if !strings.HasPrefix(strings.ToLower(m.Subject), "re:") {
		m.Subject = "Re: " + m.Subject
	}
	for utf8.RuneCountInString(m.Subject) > maxSubject {
		_, n := utf8.DecodeLastRuneInString(m.Subject)
		m.Subject = m.Subject[:len(m.Subject)-n]
	}
	return m
}

// Waiter waits for answers in an agent's inbox.
type Waiter struct {
	agent  Agent
	before map[string]bool // files that were there already
}

// Waiter returns a waiter for answers that come from now on.
func (a Agent) Waiter() (*Waiter, error) {
	names, err := list(a.Inbox())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("wait for an answer: %w", err)
	}
	w := &Waiter{a, make(map[string]bool)}
	for _, name := range names {
		w.before[name] = true
	}
	return w, nil
}

// Answer blocks until a message to the agent answers m: it names m as its parent, or
// belongs to the conversation of m and comes from one who got m. It takes nothing out
// of the inbox. The error is that of ctx.
func (w *Waiter) Answer(ctx context.Context, m message.Message) (answer Entry, err error) {
	inbox := w.agent.Inbox()
	err = pulse(ctx, func() ([]string, bool, bool, error) {
		names, err := list(inbox)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, false, err
		}
		soon := false
		for _, name := range names {
			if w.before[name] {
				continue
			}
			e := open(filepath.Join(inbox, name))
			if e.Err == nil && answers(e.Message, m) {
				answer = e
				return nil, false, true, nil
			}
			if e.Err == nil && len(e.Message.Validate()) == 0 {
				w.before[name] = true // whole, and about something else
			} else {
				soon = true
			}
		}
		return []string{inbox}, soon, false, nil
	})
	return answer, err
}

func answers(answer, m message.Message) bool {
	if len(answer.Validate()) > 0 {
		return false // half of a file, perhaps
	}
	if answer.ParentID != "" {
		return answer.ParentID == m.ID
	}
	return m.ConversationID != "" && answer.ConversationID == m.ConversationID && slices.Contains(m.To, answer.From)
}
