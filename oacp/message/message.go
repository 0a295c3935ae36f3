package message

import (
	"cmp"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// Message is an OACP message with names for its fields (OACP message schema). In
// one that was read, a field that is missing or nested is empty; what the
// file really holds is judged by Document.Validate.
type Message struct {
	ID       string
	From     string
	To       []string // more than one agent is a broadcast
	ToList   bool     // To is written as a list even if it names one agent
	Type     string   // one of Types
	Priority string   // one of Priorities
	Created  string   // created_at_utc: a time as Stamp writes it
	Subject  string
	Body     string // Render cuts newlines at its end

	Expires        string // expires_at: advice, a time as Stamp writes it
	Channel        string
	AutonomyHint   string
	RelatedPacket  string
	RelatedPR      string // digits
	ConversationID string
	ParentID       string // parent_message_id
	ContextKeys    string // text, not a list; Render cuts newlines at its end
}

// StatusMark begins the status.yaml of an agent that acpd keeps: of one that lives on
// another machine.
const StatusMark = "# kept by acpd; remove this line to keep it yourself\n"

// Types lists the twelve message types, sorted.
func Types() []string {
	return []string{
		"brainstorm_followup", "brainstorm_request", "follow_up", "handoff", "handoff_complete", "notification",
		"question", "review_addressed", "review_feedback", "review_lgtm", "review_request", "task_request",
	}
}

// Priorities lists the four priorities, the most urgent first.
func Priorities() []string { return []string{"P0", "P1", "P2", "P3"} }

// DefaultPriority is the priority of a message for which none was chosen.
const DefaultPriority = "P2"

// ReplyTypes lists the types that answer a message of the given type: the one to
// take when there is one, the ones to choose from when there are more, and none
// when no answer is expected.
func ReplyTypes(typ string) []string {
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

// Message returns the fields as text, without the space around the short ones.
func (d *Document) Message() Message {
	text := func(key string) string {
		if n := d.fields[key]; n != nil && n.Kind == yaml.ScalarNode {
			return n.Value
		}
		return ""
	}
	word := func(key string) string { return strip(text(key)) }
	m := Message{
		ID:             word("id"),
		From:           word("from"),
		Type:           word("type"),
		Priority:       word("priority"),
		Created:        word("created_at_utc"),
		Subject:        word("subject"),
		Body:           text("body"),
		Expires:        word("expires_at"),
		Channel:        word("channel"),
		AutonomyHint:   word("autonomy_hint"),
		RelatedPacket:  word("related_packet"),
		RelatedPR:      word("related_pr"),
		ConversationID: word("conversation_id"),
		ParentID:       word("parent_message_id"),
		ContextKeys:    text("context_keys"),
	}
	switch to := d.fields["to"]; {
	case to == nil || to.Kind == yaml.MappingNode:
	case to.Kind == yaml.SequenceNode:
		m.ToList = true
		for _, item := range to.Content {
			if item = resolve(item); item.Kind == yaml.ScalarNode {
				m.To = append(m.To, strip(item.Value))
			}
		}
	case word("to") != "":
		m.To = []string{word("to")}
	}
	return m
}

// list tells whether To is written as a list.
func (m Message) list() bool { return m.ToList || len(m.To) > 1 }

// document is the message as the reference would hold it before rendering: required
// fields always, optional ones when they are not empty.
func (m Message) document() *Document {
	d := &Document{fields: make(map[string]*yaml.Node)}
	for _, f := range m.fields() {
		if f.text != "" || required(f.key) {
			d.fields[f.key] = &yaml.Node{Kind: yaml.ScalarNode, Value: f.text}
		}
	}
	to := &yaml.Node{Kind: yaml.SequenceNode}
	for _, name := range m.To {
		to.Content = append(to.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name})
	}
	if !m.list() && len(m.To) == 1 {
		to = to.Content[0]
	}
	d.fields["to"] = to
	return d
}

// Validate checks a message before it is sent: the lines of the reference, nil if
// there are none.
func (m Message) Validate() []string { return m.document().Validate() }

// ExpiredAt tells whether the message is no longer actionable. A message without a
// readable time of expiry never expires.
func (m Message) ExpiredAt(now time.Time) bool {
	t, ok := parseStamp(m.Expires)
	return ok && now.After(t)
}

// PriorityRank is 0 to 3 for P0 to P3, and 4 for anything else.
func (m Message) PriorityRank() int {
	if i := slices.Index(Priorities(), m.Priority); i >= 0 {
		return i
	}
	return len(Priorities())
}

// IsRequest tells the types that are processed before others of their priority.
func (m Message) IsRequest() bool { return m.Type == "task_request" || m.Type == "review_request" }

// Compare is the order of processing (OACP inbox, "process them in this order"): by
// priority, requests for work first, then the oldest; what has expired comes last, and
// a message without a legal time after those of its kind. Equal messages are left to
// the caller, who has their file names.
func Compare(a, b Message, now time.Time) int {
	return cmp.Or(
		cmp.Compare(later(a.ExpiredAt(now)), later(b.ExpiredAt(now))),
		cmp.Compare(a.PriorityRank(), b.PriorityRank()),
		cmp.Compare(later(!a.IsRequest()), later(!b.IsRequest())),
		cmp.Compare(later(!isStamp(a.Created)), later(!isStamp(b.Created))),
		cmp.Compare(a.Created, b.Created),
	)
}

func later(is bool) int {
	if is {
		return 1
	}
	return 0
}
