package object

import (
	"regexp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// OwnKinds are the types of events that only the server writes, so that the log can be
// believed.
var OwnKinds = []string{"intent_created", "status_changed", "state_patched", "agent_assigned", "agent_unassigned", "access_granted", "access_revoked", KindMessage}

const KindMessage = "channel_message"

// PostEvent asks to log an event.
type PostEvent struct {
	Type    string         `json:"event_type"`
	Actor   string         `json:"actor"`
	Payload jsontext.Value `json:"payload"`
	TraceID *string        `json:"trace_id"`
	Parent  *string        `json:"parent_event_id"`
}

const MaxEvent = 256 << 10 // bytes of an event's payload

const (
	maxEventType = 64
	TraceDigits  = 32
)

var eventForm = regexp.MustCompile(`^[a-z][a-z0-9_.]*$`)

// IsEventType reports whether s may be the type of an event.
func IsEventType(s string) bool { return len(s) <= maxEventType && eventForm.MatchString(s) }

// EventFilter selects the events of a log that a list holds.
type EventFilter struct {
	Type, TraceID string // "": any
	Since         string // those of a later time; "": any
	Page
}

// ChainVerification tells the outcome of recomputing a log (RFC-0019).
type ChainVerification struct {
	IntentID string       `json:"intent_id"`
	Valid    bool         `json:"valid"`
	Chain    bool         `json:"chain_valid"` // the same
	Count    int64        `json:"event_count"`
	First    int64        `json:"first_sequence"`
	Last     int64        `json:"last_sequence"`
	Breaks   []ChainBreak `json:"breaks"` // at most 100
}

// ChainBreak is an event that does not follow from those before it.
type ChainBreak struct {
	Sequence int64  `json:"sequence"`
	EventID  string `json:"event_id"`
	Problem  string `json:"problem"`
}

// Check refuses values that are not allowed.
func (p *PostEvent) Check() error {
	if !IsEventType(p.Type) {
		return NewFieldError("event_type", "lower-case letters, digits, _ and . are needed, at most 64")
	}
	if slices.Contains(OwnKinds, p.Type) {
		return NewError("reserved_event", "only the server writes events of this type: log a comment")
	}
	if err := NormalizeJSONObject("payload", &p.Payload); err != nil {
		return err
	}
	if len(p.Payload) > MaxEvent {
		return NewError("too_large", "payload: %d bytes, at most %d are logged: put large data elsewhere and refer to it", len(p.Payload), MaxEvent)
	}
	if p.TraceID != nil && *p.TraceID != "" && !IsHex(*p.TraceID, TraceDigits) {
		return NewFieldError("trace_id", "32 lower-case hex digits are needed")
	}
	if p.Parent != nil {
		return CheckAtMost("parent_event_id", len(*p.Parent), MaxAgentID, " bytes")
	}
	return nil
}
