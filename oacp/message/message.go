package message

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Message is an OACP message with names for its fields (OACP message schema). A field of the file
// that is missing, a list or a mapping is empty; Document.Validate checks the file itself.
type Message struct {
	ID       string   `json:"id,omitempty"`
	From     string   `json:"from,omitempty"`
	To       []string `json:"to,omitempty"`             // more than one agent is a broadcast
	ToList   bool     `json:"-"`                        // To is written as a list even if it names one agent
	Type     string   `json:"type,omitempty"`           // one of ListMessageTypes
	Priority string   `json:"priority,omitempty"`       // one of ListPriorities
	Created  string   `json:"created_at_utc,omitempty"` // a time as FormatTimestamp writes it

	Expires        string `json:"expires_at,omitempty"` // advice, a time as FormatTimestamp writes it
	Channel        string `json:"channel,omitempty"`
	AutonomyHint   string `json:"autonomy_hint,omitempty"`
	RelatedPacket  string `json:"related_packet,omitempty"`
	RelatedPR      string `json:"related_pr,omitempty"` // digits
	ConversationID string `json:"conversation_id,omitempty"`
	ParentID       string `json:"parent_message_id,omitempty"`
	ContextKeys    string `json:"context_keys,omitempty"` // text, not a list; Render cuts newlines at its end

	Subject string `json:"subject,omitempty"`
	Body    string `json:"body,omitempty"` // Render cuts newlines at its end
}

// StatusMark is the first line of each status.yaml that acpd writes, for an agent on another
// machine.
const StatusMark = "# kept by acpd; remove this line to keep it yourself\n"

// ListMessageTypes lists the twelve message types, sorted.
func ListMessageTypes() []string {
	return []string{
		"brainstorm_followup", "brainstorm_request", "follow_up", "handoff", "handoff_complete", "notification",
		"question", "review_addressed", "review_feedback", "review_lgtm", "review_request", "task_request",
	}
}

// ListPriorities lists the four priorities, the most urgent first.
func ListPriorities() []string { return []string{"P0", "P1", "P2", "P3"} }

// DefaultPriority is the priority of a message for which none was chosen.
const DefaultPriority = "P2"

// ListReplyTypes lists the types that can answer a message of a type. There is none if no answer
// is expected.
func ListReplyTypes(typ string) []string {
	switch typ {
	case "task_request", "question", "brainstorm_request", "brainstorm_followup":
		return []string{"notification"}
	case "handoff":
		return []string{"handoff_complete"}
	case "review_request", "review_addressed":
		return []string{"review_feedback", "review_lgtm"}
	case "review_feedback":
		return []string{"review_addressed"}
	}
	return nil
}

// messageField is one field of a message.
type messageField struct {
	key   string
	value *string
}

// listFields lists the fields of a message in the reference's order, without "to", which is after
// "from".
func (m *Message) listFields() []messageField {
	return []messageField{
		{"id", &m.ID},
		{"from", &m.From},
		{"type", &m.Type},
		{"priority", &m.Priority},
		{"created_at_utc", &m.Created},
		{"expires_at", &m.Expires},
		{"channel", &m.Channel},
		{"autonomy_hint", &m.AutonomyHint},
		{"related_packet", &m.RelatedPacket},
		{"related_pr", &m.RelatedPR},
		{"conversation_id", &m.ConversationID},
		{"parent_message_id", &m.ParentID},
		{"context_keys", &m.ContextKeys},
		{"subject", &m.Subject},
		{"body", &m.Body},
	}
}

// isMultiline reports whether a field may have several lines.
func (f messageField) isMultiline() bool { return f.key == "body" || f.key == "context_keys" }

// renderedValue returns the value as it is written.
func (f messageField) renderedValue() string {
	if f.isMultiline() {
		return strings.TrimRight(*f.value, "\n")
	}
	return *f.value
}

// ToMessage returns the fields as text. Those of one line have no space around them.
func (d *Document) ToMessage() (m Message) {
	for _, f := range m.listFields() {
		if n := d.fields[f.key]; n != nil && n.Kind == yaml.ScalarNode {
			*f.value = n.Value
			if !f.isMultiline() {
				*f.value = stripPythonSpace(n.Value)
			}
		}
	}
	switch to := d.fields["to"]; {
	case to == nil:
	case to.Kind == yaml.SequenceNode:
		m.ToList = true
		for _, item := range to.Content {
			if item = resolveYAMLAlias(item); item.Kind == yaml.ScalarNode {
				m.To = append(m.To, stripPythonSpace(item.Value))
			}
		}
	case to.Kind == yaml.ScalarNode && stripPythonSpace(to.Value) != "":
		m.To = []string{stripPythonSpace(to.Value)}
	}
	return m
}

// hasRecipientList reports whether To is written as a list.
func (m Message) hasRecipientList() bool { return m.ToList || len(m.To) > 1 }

// toDocument returns the document that a message renders to: with all required fields, and with
// the optional ones that are not empty.
func (m Message) toDocument() *Document {
	d := &Document{fields: make(map[string]*yaml.Node)}
	for _, f := range m.listFields() {
		if text := f.renderedValue(); text != "" || isRequiredField(f.key) {
			d.fields[f.key] = &yaml.Node{Kind: yaml.ScalarNode, Value: text}
		}
	}
	to := &yaml.Node{Kind: yaml.SequenceNode}
	for _, name := range m.To {
		to.Content = append(to.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name})
	}
	if !m.hasRecipientList() && len(m.To) == 1 {
		to = to.Content[0]
	}
	d.fields["to"] = to
	return d
}

// Validate checks a message before it is sent. It returns its faults, as [Document.Validate] does.
func (m Message) Validate() []string { return m.toDocument().Validate() }

// IsExpiredAt reports whether the message is no longer actionable at a time. A message
// without a readable time of expiry never expires.
func (m Message) IsExpiredAt(now time.Time) bool {
	t, ok := parseTimestamp(m.Expires)
	return ok && now.After(t)
}

// PriorityRank returns 0 to 3 for P0 to P3, and 4 for anything else.
func (m Message) PriorityRank() int {
	if i := slices.Index(ListPriorities(), m.Priority); i >= 0 {
		return i
	}
	return len(ListPriorities())
}

// IsRequest reports whether the message asks for work. Such a message is processed before others
// of its priority.
func (m Message) IsRequest() bool { return m.Type == "task_request" || m.Type == "review_request" }

// CompareUrgency is negative if a is processed before b (OACP inbox, "process them in this
// order"): by priority, then requests for work, then the oldest. Expired messages are last, and
// messages without a valid time are last among equals. The caller sorts equal messages by file
// name.
func CompareUrgency(a, b Message, now time.Time) int {
	return cmp.Or(
		compareBool(a.IsExpiredAt(now), b.IsExpiredAt(now)),
		cmp.Compare(a.PriorityRank(), b.PriorityRank()),
		compareBool(b.IsRequest(), a.IsRequest()),
		compareBool(isTimestamp(b.Created), isTimestamp(a.Created)),
		cmp.Compare(a.Created, b.Created),
	)
}

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
