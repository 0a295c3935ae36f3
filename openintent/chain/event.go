package chain

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Event is one entry of an intent's log (RFC-0001). Each holds the hash of the one before
// it (RFC-0019).
type Event struct {
	ID        string         `json:"id"`
	IntentID  string         `json:"intent_id"`
	Type      string         `json:"event_type"`
	Actor     string         `json:"actor"`
	Payload   jsontext.Value `json:"payload"`
	CreatedAt Time           `json:"created_at"`
	TraceID   *string        `json:"trace_id"`
	Parent    *string        `json:"parent_event_id"`
	Sequence  int64          `json:"sequence"`            // from 1
	Previous  *string        `json:"previous_event_hash"` // null in the first
	Hash      string         `json:"event_hash,omitzero"`
}

// EncodeCanonical returns the event's RFC 8785 form without event_hash: its members sorted by
// name. payload is the canonical form of the event's payload.
func (ev *Event) EncodeCanonical(payload jsontext.Value) []byte {
	b := make([]byte, 0, 640+len(payload))
	b = AppendJSONString(append(b, `{"actor":`...), ev.Actor)
	b = ev.CreatedAt.AppendJSON(append(b, `,"created_at":`...))
	b = AppendJSONString(append(b, `,"event_type":`...), ev.Type)
	b = AppendJSONString(append(b, `,"id":`...), ev.ID)
	b = AppendJSONString(append(b, `,"intent_id":`...), ev.IntentID)
	b = AppendJSONStringOrNull(append(b, `,"parent_event_id":`...), stringOrEmpty(ev.Parent))
	b = append(append(b, `,"payload":`...), payload...)
	b = AppendJSONStringOrNull(append(b, `,"previous_event_hash":`...), stringOrEmpty(ev.Previous))
	b = strconv.AppendInt(append(b, `,"sequence":`...), ev.Sequence, 10)
	b = AppendJSONStringOrNull(append(b, `,"trace_id":`...), stringOrEmpty(ev.TraceID))
	return append(b, '}')
}

// Encode returns the event as it is answered and stored. Its payload is copied as it is.
func (ev *Event) Encode() []byte {
	b := make([]byte, 0, 768+len(ev.Payload))
	b = AppendJSONString(append(b, `{"id":`...), ev.ID)
	b = AppendJSONString(append(b, `,"intent_id":`...), ev.IntentID)
	b = AppendJSONString(append(b, `,"event_type":`...), ev.Type)
	b = AppendJSONString(append(b, `,"actor":`...), ev.Actor)
	b = append(append(b, `,"payload":`...), ev.Payload...)
	b = ev.CreatedAt.AppendJSON(append(b, `,"created_at":`...))
	b = AppendJSONStringOrNull(append(b, `,"trace_id":`...), stringOrEmpty(ev.TraceID))
	b = AppendJSONStringOrNull(append(b, `,"parent_event_id":`...), stringOrEmpty(ev.Parent))
	b = strconv.AppendInt(append(b, `,"sequence":`...), ev.Sequence, 10)
	b = AppendJSONStringOrNull(append(b, `,"previous_event_hash":`...), stringOrEmpty(ev.Previous))
	b = AppendJSONString(append(b, `,"event_hash":`...), ev.Hash)
	return append(b, '}')
}

// stringOrEmpty returns the string, or "" for nil.
func stringOrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// ComputeHash returns the event_hash that the event must have: the hash of its RFC 8785 form
// without event_hash. It makes that form of the event's JSON, and so also finds mistakes of
// [Event.EncodeCanonical].
func (ev Event) ComputeHash() (string, error) {
	ev.Hash = ""
	text, err := json.Marshal(ev)
	if err != nil {
		return "", err
	}
	v := jsontext.Value(text)
	if err := v.Canonicalize(); err != nil {
		return "", err
	}
	return HashCanonicalJSON(v), nil
}

// FindChainBreak returns what breaks the chain at the event, "" if nothing does. The event must
// be the one of that intent with that sequence number, after an event with the hash previous ("":
// none).
func (ev *Event) FindChainBreak(intent string, sequence int64, previous string) string {
	if want, err := ev.ComputeHash(); err != nil || want != ev.Hash || ev.Sequence != sequence || ev.IntentID != intent {
		return "event_hash is not that of the event"
	}
	if (ev.Previous == nil) != (previous == "") || ev.Previous != nil && *ev.Previous != previous {
		return "previous_event_hash is not that of the event before"
	}
	return ""
}

// Trace returns the event's trace_id, or "".
func (ev *Event) Trace() string { return stringOrEmpty(ev.TraceID) }
