package mailbox

import (
	"slices"
	"strings"

	"github.com/acpd/acpd/oacp/message"
)

// DraftReply returns the fields of an answer from the agent to a message that follow from the
// message: recipients, subject, priority, conversation and parent, and the type if the
// specification names only one. An answer to the agent's own message goes to its recipients.
func (a Agent) DraftReply(parent message.Message) message.Message {
	m := message.Message{
		From: a.Name, To: []string{parent.From}, Priority: parent.Priority,
		Subject: parent.Subject, ConversationID: parent.ConversationID, ParentID: parent.ID,
	}
	if parent.From == a.Name {
		m.To = slices.Clone(parent.To)
	}
	if types := message.ListReplyTypes(parent.Type); len(types) == 1 {
		m.Type = types[0]
	}
	if !strings.HasPrefix(strings.ToLower(m.Subject), "re:") {
		m.Subject = "Re: " + m.Subject
	}
	if letters := []rune(m.Subject); len(letters) > message.MaxSubject {
		m.Subject = string(letters[:message.MaxSubject])
	}
	return m
}
