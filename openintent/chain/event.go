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

// CanonicalText returns the event's RFC 8785 form without event_hash: its members sorted by
// name. payload is the canonical form of the event's payload.
func (ev *Event) CanonicalText(payload jsontext.Value) []byte {
	b := make([]byte, 0, 640+len(payload))
	b = AppendString(append(b, `{"actor":`...), ev.Actor)
	b = ev.CreatedAt.AppendJSON(append(b, `,"created_at":`...))
	b = AppendString(append(b, `,"event_type":`...), ev.Type)
	b = AppendString(append(b, `,"id":`...), ev.ID)
	b = AppendString(append(b, `,"intent_id":`...), ev.IntentID)
	b = AppendStringOrNull(append(b, `,"parent_event_id":`...), deref(ev.Parent))
	b = append(append(b, `,"payload":`...), payload...)
	b = AppendStringOrNull(append(b, `,"previous_event_hash":`...), deref(ev.Previous))
	b = strconv.AppendInt(append(b, `,"sequence":`...), ev.Sequence, 10)
	b = AppendStringOrNull(append(b, `,"trace_id":`...), deref(ev.TraceID))
	return append(b, '}')
}

// Text returns the event as it is answered and stored. Its payload is copied as it is.
func (ev *Event) Text() []byte {
	b := make([]byte, 0, 768+len(ev.Payload))
	b = AppendString(append(b, `{"id":`...), ev.ID)
	b = AppendString(append(b, `,"intent_id":`...), ev.IntentID)
	b = AppendString(append(b, `,"event_type":`...), ev.Type)
	b = AppendString(append(b, `,"actor":`...), ev.Actor)
	b = append(append(b, `,"payload":`...), ev.Payload...)
	b = ev.CreatedAt.AppendJSON(append(b, `,"created_at":`...))
	b = AppendStringOrNull(append(b, `,"trace_id":`...), deref(ev.TraceID))
	b = AppendStringOrNull(append(b, `,"parent_event_id":`...), deref(ev.Parent))
	b = strconv.AppendInt(append(b, `,"sequence":`...), ev.Sequence, 10)
	b = AppendStringOrNull(append(b, `,"previous_event_hash":`...), deref(ev.Previous))
	b = AppendString(append(b, `,"event_hash":`...), ev.Hash)
	return append(b, '}')
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// ComputeHash returns what event_hash must be: the hash of the event's RFC 8785 form without
// it. It makes that form of the event's JSON, and so also finds what [Event.CanonicalText]
// would get wrong.
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
	return Hash(v), nil
}

// FindBreak returns what is wrong with the event, "" if nothing is. It is to be the one of
// that intent with that sequence number, after an event with the hash previous ("": none).
func (ev *Event) FindBreak(intent string, sequence int64, previous string) string {
	if want, err := ev.ComputeHash(); err != nil || want != ev.Hash || ev.Sequence != sequence || ev.IntentID != intent {
		return "event_hash is not that of the event"
	}
	if (ev.Previous == nil) != (previous == "") || ev.Previous != nil && *ev.Previous != previous {
		return "previous_event_hash is not that of the event before"
	}
	return ""
}

// Trace returns the event's trace_id, "" if it has none.
func (ev *Event) Trace() string { return deref(ev.TraceID) }
