package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/acpd/acpd/oacp/message"
)

// AnswerWaiter waits for answers in an agent's inbox.
type AnswerWaiter struct {
	agent  Agent
	before map[string]bool // files that cannot be the answer
}

// NewAnswerWaiter returns a waiter for answers that arrive from now on.
func (a Agent) NewAnswerWaiter() (*AnswerWaiter, error) {
	names, err := listMessageFiles(a.Inbox())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("wait for an answer: %w", err)
	}
	w := &AnswerWaiter{a, make(map[string]bool)}
	for _, name := range names {
		w.before[name] = true
	}
	return w, nil
}

// AwaitAnswer blocks until a message to the agent answers m, or ctx ends. An answer names m
// as its parent, or belongs to the conversation of m and comes from a recipient of m.
// AwaitAnswer takes nothing out of the inbox.
func (w *AnswerWaiter) AwaitAnswer(ctx context.Context, m message.Message) (answer Entry, err error) {
	inbox := w.agent.Inbox()
	err = scanOnFolderChange(ctx, func() ([]string, bool, bool, error) {
		names, err := listMessageFiles(inbox)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, false, err
		}
		soon := false
		for _, name := range names {
			if w.before[name] {
				continue
			}
			e := readMessageEntry(filepath.Join(inbox, name))
			if e.Err == nil && isAnswerTo(e.Message, m) {
				answer = e
				return nil, false, true, nil
			}
			if e.Err == nil && len(e.Message.Validate()) == 0 {
				w.before[name] = true // complete, and about something else
			} else {
				soon = true
			}
		}
		return []string{inbox}, soon, false, nil
	})
	return answer, err
}

func isAnswerTo(answer, m message.Message) bool {
	if len(answer.Validate()) > 0 {
		return false // perhaps half of a file
	}
	if answer.ParentID != "" {
		return answer.ParentID == m.ID
	}
	return m.ConversationID != "" && answer.ConversationID == m.ConversationID && slices.Contains(m.To, answer.From)
}
