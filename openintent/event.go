package openintent

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/store"
)

// Event is one entry of an intent's log (RFC-0001, chained as RFC-0019 asks).
type Event struct {
	ID        string         `json:"id"`
	IntentID  string         `json:"intent_id"`
	Type      string         `json:"event_type"`
	Actor     string         `json:"actor"`
	Payload   jsontext.Value `json:"payload"`
	CreatedAt stamp          `json:"created_at"`
	TraceID   *string        `json:"trace_id"`
	Parent    *string        `json:"parent_event_id"`
	Sequence  int64          `json:"sequence"`            // from 1
	Previous  *string        `json:"previous_event_hash"` // null in the first
	Hash      string         `json:"event_hash,omitzero"`
}

// event is what a log entry is made of.
type event struct {
	kind, actor string
	payload     jsontext.Value
	trace       string
	parent      string
}

const kindMessage = "channel_message"

// ownKinds are written by the server alone, so that the log can be believed.
var ownKinds = []string{"intent_created", "status_changed", "state_patched", "agent_assigned", "agent_unassigned", "access_granted", "access_revoked", kindMessage}

// members builds an object of names and values, in their order.
func members(pairs ...any) jsontext.Value {
	b := []byte{'{'}
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, pairs[i].(string))
		b = append(b, ':')
		v, err := json.Marshal(pairs[i+1], json.Deterministic(true))
		if err != nil {
			panic(err) // our own values
		}
		b = append(b, v...)
	}
	return append(b, '}')
}

// log appends an event to the intent's log.
func (t *tx) log(in *intent, ev event) (*Event, error) {
	doc := &Event{ID: t.e.newID(idEvent, t.now), IntentID: in.id, Type: ev.kind, Actor: ev.actor, Payload: ev.payload, CreatedAt: t.now, Sequence: in.sequence + 1}
	if in.hash != "" {
		doc.Previous = &in.hash
	}
	if ev.trace != "" {
		doc.TraceID = &ev.trace
	}
	if ev.parent != "" {
		doc.Parent = &ev.parent
	}
	hash, err := doc.chain()
	if err != nil {
		return nil, err
	}
	doc.Hash = hash
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	seq := t.number()
	if err := t.insertEvent(seq, in, doc, ev.trace, text); err != nil {
		return nil, err
	}
	t.apply(func() { in.sequence, in.hash = doc.Sequence, hash })
	t.out = append(t.out, entry{seq: seq, in: in, event: doc})
	return doc, nil
}

// chain returns the event's hash: SHA-256 over its RFC 8785 form without event_hash.
func (ev Event) chain() (string, error) {
	ev.Hash = ""
	text, err := json.Marshal(ev)
	if err != nil {
		return "", err
	}
	v := jsontext.Value(text)
	if err := v.Canonicalize(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(v)
	return "sha256:" + base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

type postEvent struct {
	Type    string         `json:"event_type"`
	Actor   string         `json:"actor"`
	Payload jsontext.Value `json:"payload"`
	TraceID *string        `json:"trace_id"`
	Parent  *string        `json:"parent_event_id"`
}

const maxEvent = 256 << 10 // bytes of an event's payload

var (
	eventForm = regexp.MustCompile(`^[a-z][a-z0-9_.]{0,63}$`)
	traceForm = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

func (e *Engine) postEvent(c *call) (int, any, error) {
	var body postEvent
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	actor, err := c.actor("actor", body.Actor)
	if err != nil {
		return 0, nil, err
	}
	if !eventForm.MatchString(body.Type) {
		return 0, nil, invalid("event_type", "lower-case letters, digits, _ and . are needed, at most 64")
	}
	if slices.Contains(ownKinds, body.Type) {
		return 0, nil, forbidden("reserved_event", "events of this type are written by the server alone: log a comment")
	}
	if err := object("payload", &body.Payload); err != nil {
		return 0, nil, err
	}
	if len(body.Payload) > maxEvent {
		return 0, nil, refuse(http.StatusRequestEntityTooLarge, "too_large", "payload: %d bytes, at most %d are logged: put large data elsewhere and refer to it", len(body.Payload), maxEvent)
	}
	ev := event{kind: body.Type, actor: actor, payload: body.Payload}
	if body.TraceID != nil {
		if ev.trace = *body.TraceID; ev.trace != "" && !traceForm.MatchString(ev.trace) {
			return 0, nil, invalid("trace_id", "32 lower-case hex digits are needed")
		}
	}
	if body.Parent != nil {
		if ev.parent = *body.Parent; len(ev.parent) > maxAgentID {
			return 0, nil, invalid("parent_event_id", "at most %d bytes", maxAgentID)
		}
	}
	var doc *Event
	err = e.writeIntent(c, c.arg(0), levelWrite, func(t *tx, in *intent) (err error) {
		doc, err = t.log(in, ev)
		return err
	})
	return http.StatusCreated, doc, err
}

func (e *Engine) listEvents(c *call) (int, any, error) {
	in, err := e.intent(c, c.arg(0), levelRead)
	if err != nil {
		return 0, nil, err
	}
	q := c.query()
	limit, offset, err := q.page(100)
	if err != nil {
		return 0, nil, err
	}
	var since stamp
	if text := q.Get("since"); text != "" {
		if since, err = parseStamp(text); err != nil {
			return 0, nil, refuse(http.StatusBadRequest, "bad_cursor", "since: %v", err)
		}
	}
	b := []byte{'['}
	err = e.readEvents(c.Context(), in.row, q.Get("event_type"), strings.ToLower(q.Get("trace_id")), since, limit, offset, func(doc []byte) bool {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, doc...)
		return len(b) < maxListBytes
	})
	return http.StatusOK, jsontext.Value(append(b, ']')), err
}

// ChainVerification is the outcome of recomputing a log (RFC-0019).
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

func (e *Engine) verifyEvents(c *call) (int, any, error) {
	in, err := e.intent(c, c.arg(0), levelRead)
	if err != nil {
		return 0, nil, err
	}
	// What a write sees here is committed when that write is.
	var head int64
	var hash string
	if err := e.db.Write(c.Context(), false, func(*store.Tx) error {
		in = e.intents[in.id]
		head, hash = in.sequence, in.hash
		return nil
	}); err != nil {
		return 0, nil, err
	}
	v := ChainVerification{IntentID: in.id, Breaks: []ChainBreak{}}
	broken := func(sequence int64, id, problem string) {
		if len(v.Breaks) < 100 {
			v.Breaks = append(v.Breaks, ChainBreak{sequence, id, problem})
		}
	}
	previous := ""
	for v.Last < head {
		page := v.Last
		err := e.db.Read(c.Context(), func(stx *store.Tx) error {
			return eventsFrom(stx, in.row, v.Last, func(row int64, text []byte) error {
				if row > head {
					return nil
				}
				var ev Event
				if err := json.Unmarshal(text, &ev); err != nil {
					broken(row, "", "the event cannot be read")
					ev = Event{}
				} else if want, err := ev.chain(); err != nil || want != ev.Hash || ev.Sequence != row || ev.IntentID != in.id {
					broken(row, ev.ID, "event_hash is not that of the event")
				} else if (ev.Previous == nil) != (previous == "") || ev.Previous != nil && *ev.Previous != previous {
					broken(row, ev.ID, "previous_event_hash is not that of the event before")
				}
				if row != v.Last+1 {
					broken(row, ev.ID, "events before this one are missing")
				}
				if v.Count++; v.Count == 1 {
					v.First = row
				}
				v.Last, previous = row, ev.Hash
				return nil
			})
		})
		if err != nil {
			return 0, nil, err
		}
		if v.Last == page {
			break
		}
	}
	if v.Last != head || previous != hash {
		broken(head, "", "the last event is missing")
	}
	v.Valid = len(v.Breaks) == 0
	v.Chain = v.Valid
	return http.StatusOK, v, nil
}

func (e *Engine) readEvents(ctx context.Context, intent int64, kind, trace string, since stamp, limit, offset int, each func([]byte) bool) error {
	return e.db.Read(ctx, func(stx *store.Tx) error {
		return eventsBack(stx, intent, kind, trace, since, limit, offset, each)
	})
}
