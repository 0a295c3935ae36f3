package openintent

import (
	"errors"
	"math"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

// event is what a log entry is made of.
type event struct {
	kind, actor string
	payload     jsontext.Value
	canonical   jsontext.Value // the RFC 8785 form of payload; nil where log is to find it
	trace       string
	parent      string
	payer       string // of an event of the system: the daemon whose share it is of
}

// newEvent makes an event of a large payload, so that nothing of it is left to be
// encoded inside of a write.
func newEvent(kind string, payload jsontext.Value) (*event, error) {
	ev := &event{kind: kind, payload: payload}
	return ev, ev.prepare()
}

// prepare finds the canonical form of the payload, unless that is done.
func (ev *event) prepare() (err error) {
	if ev.canonical == nil {
		ev.canonical, err = chain.Canonical(ev.payload)
	}
	return err
}

const kindMessage = "channel_message"

// ownKinds are written by the server alone, so that the log can be believed.
var ownKinds = []string{"intent_created", "status_changed", "state_patched", "agent_assigned", "agent_unassigned", "access_granted", "access_revoked", kindMessage}

// members builds an object of names and values, in their order.
func Members(pairs ...any) jsontext.Value {
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

// atHome is members for what names an agent, with its home unless that is here.
func atHome(home string, pairs ...any) jsontext.Value {
	if home != "" {
		pairs = append(pairs, "home", home)
	}
	return Members(pairs...)
}

// log appends an event to the intent's log.
func (t *tx) log(in *intent, ev event) (*chain.Event, error) {
	doc := &chain.Event{ID: t.e.newID(idEvent, t.now), IntentID: in.id, Type: ev.kind, Actor: ev.actor, Payload: ev.payload, CreatedAt: t.now, Sequence: in.sequence + 1}
	if before := in.hash; before != "" {
		doc.Previous = &before
	}
	if ev.trace != "" {
		doc.TraceID = &ev.trace
	}
	if ev.parent != "" {
		doc.Parent = &ev.parent
	}
	if err := ev.prepare(); err != nil {
		return nil, err
	}
	hash := chain.Hash(doc.CanonicalText(ev.canonical))
	doc.Hash = hash
	text := doc.Text()
	seq := t.number()
	if err := errors.Join(t.insertEvent(seq, in, doc, ev.trace, text), t.wrote(in, t.e.pays(ev.actor, ev.payer), share{int64(len(text)), 1})); err != nil {
		return nil, err
	}
	before := in.hash
	t.apply(step{func() { in.sequence, in.hash = doc.Sequence, hash }, func() { in.sequence, in.hash = doc.Sequence-1, before }})
	t.out = append(t.out, entry{seq: seq, in: in, event: doc})
	return doc, nil
}

// PostEvent is an event as it is asked for.
type PostEvent struct {
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

// LogEvent appends an event to the intent's log.
func (e *Engine) LogEvent(c *Call, intentID string, want *PostEvent) (doc *chain.Event, err error) {
	actor, err := c.actor("actor", want.Actor)
	if err != nil {
		return nil, err
	}
	if !eventForm.MatchString(want.Type) {
		return nil, Invalid("event_type", "lower-case letters, digits, _ and . are needed, at most 64")
	}
	if slices.Contains(ownKinds, want.Type) {
		return nil, Refuse("reserved_event", "events of this type are written by the server alone: log a comment")
	}
	if err := CheckObject("payload", &want.Payload); err != nil {
		return nil, err
	}
	if len(want.Payload) > maxEvent {
		return nil, Refuse("too_large", "payload: %d bytes, at most %d are logged: put large data elsewhere and refer to it", len(want.Payload), maxEvent)
	}
	ev, err := newEvent(want.Type, want.Payload)
	if err != nil {
		return nil, err
	}
	ev.actor = actor
	if want.TraceID != nil {
		if ev.trace = *want.TraceID; ev.trace != "" && !traceForm.MatchString(ev.trace) {
			return nil, Invalid("trace_id", "32 lower-case hex digits are needed")
		}
	}
	if want.Parent != nil {
		if ev.parent = *want.Parent; len(ev.parent) > maxAgentID {
			return nil, Invalid("parent_event_id", "at most %d bytes", maxAgentID)
		}
	}
	err = e.writeIntent(c, intentID, levelWrite, func(t *tx, in *intent) (err error) {
		doc, err = t.log(in, *ev)
		return err
	})
	return doc, err
}

// eventList is a list of events while they are looked for.
type eventList struct {
	kind, trace string     // empty: any
	since       chain.Time // those of a later time
	skip, limit int

	show func(*store.Tx, *look, []byte) ([]byte, error) // what is shown of an audited message's event

	list        JSON // an array without its end
	found, size int
}

// matches reports whether the list holds an event, once the first ones are skipped.
func (f *eventList) matches(kind, trace string, at chain.Time) bool {
	if f.kind != "" && kind != f.kind || f.trace != "" && trace != f.trace || at <= f.since {
		return false
	}
	f.skip--
	return f.skip < 0
}

// add takes an event that was found, and reports whether the list is full.
func (f *eventList) add(doc []byte) (full bool) {
	f.list = f.list.Add(f.found == 0, doc)
	f.found++
	f.size += len(doc)
	return f.found >= f.limit || f.size >= MaxListBytes
}

// EventFilter says which events of a log a list holds.
type EventFilter struct {
	Type, TraceID string // "": any
	Since         string // those of a later time; "": any
	Page
}

// ListEvents returns events of the intent's log, the newest first, as a JSON array.
func (e *Engine) ListEvents(c *Call, intentID string, which EventFilter) (JSON, error) {
	in, err := e.intent(c, intentID, levelRead)
	if err != nil {
		return nil, err
	}
	if err := which.Check(); err != nil {
		return nil, err
	}
	f := &eventList{kind: which.Type, trace: which.TraceID, limit: which.Limit, skip: which.Offset, list: JSON{[]byte("[")}}
	if which.Since != "" {
		if f.since, err = chain.ParseTime(which.Since); err != nil {
			return nil, Refuse("bad_cursor", "since: %v", err)
		}
	}
	f.show = func(stx *store.Tx, l *look, doc []byte) ([]byte, error) { return e.asSeen(stx, l, in, c.Caller, doc) }
	for before := int64(math.MaxInt64); before > 0 && err == nil; {
		err = e.read(c.Context(), func(stx *store.Tx, l *look) (err error) {
			before, err = f.eventsBack(c, stx, l, in.row, before)
			return err
		})
	}
	return append(f.list, []byte("]")), err
}
