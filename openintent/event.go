package openintent

import (
	"errors"
	"math"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// eventDraft is an event that has no place in a log yet.
type eventDraft struct {
	kind, actor string
	payload     jsontext.Value
	canonical   jsontext.Value // the RFC 8785 form of payload; nil: appendEventToLog makes it
	trace       string
	parent      string
	payer       string // of an event of the system: the daemon that is charged
}

// newEventDraft makes an event of a large payload and finds the canonical form of the payload,
// so that this does not happen inside of a write.
func newEventDraft(kind string, payload jsontext.Value) (*eventDraft, error) {
	ev := &eventDraft{kind: kind, payload: payload}
	return ev, ev.canonicalize()
}

// canonicalize finds the canonical form of the payload, unless that is done.
func (ev *eventDraft) canonicalize() (err error) {
	if ev.canonical == nil {
		ev.canonical, err = chain.CanonicalizeJSON(ev.payload)
	}
	return err
}

// appendEventToLog appends an event to the intent's log.
func (t *tx) appendEventToLog(in *intentRecord, ev eventDraft) (*chain.Event, error) {
	doc := &chain.Event{ID: t.e.newID(object.IDEvent, t.now), IntentID: in.id, Type: ev.kind, Actor: ev.actor, Payload: ev.payload, CreatedAt: t.now, Sequence: in.sequence + 1}
	if before := in.hash; before != "" {
		doc.Previous = &before
	}
	if ev.trace != "" {
		doc.TraceID = &ev.trace
	}
	if ev.parent != "" {
		doc.Parent = &ev.parent
	}
	if err := ev.canonicalize(); err != nil {
		return nil, err
	}
	hash := chain.HashCanonicalJSON(doc.EncodeCanonical(ev.canonical))
	doc.Hash = hash
	text := doc.Encode()
	seq := t.nextFeedNumber()
	if err := errors.Join(
		t.execute("INSERT INTO openintent_event (seq, intent, sequence, type, at, trace, doc) VALUES (?, ?, ?, ?, ?, ?, ?)", seq, in.row, doc.Sequence, doc.Type, int64(doc.CreatedAt), ev.trace, string(text)),
		t.adjustDiskShare(in, t.e.payingHomeOf(ev.actor, ev.payer), diskShare{int64(len(text)), 1})); err != nil {
		return nil, err
	}
	t.e.withLock(func() {
		set(t, &in.sequence, doc.Sequence)
		set(t, &in.hash, hash)
	})
	t.out = append(t.out, feedEntry{seq: seq, in: in, event: doc})
	return doc, nil
}

// LogEvent appends an event to the intent's log.
func (e *Engine) LogEvent(c *Call, intentID string, want *object.PostEvent) (doc *chain.Event, err error) {
	who, err := c.resolveActingCaller("actor", want.Actor)
	if err != nil {
		return nil, err
	}
	if err := want.Check(); err != nil {
		return nil, err
	}
	ev, err := newEventDraft(want.Type, want.Payload)
	if err != nil {
		return nil, err
	}
	ev.actor = who.name
	if want.TraceID != nil {
		ev.trace = *want.TraceID
	}
	if want.Parent != nil {
		ev.parent = *want.Parent
	}
	err = e.writeIfAuthorized(c, intentID, levelWrite, func(t *tx, in *intentRecord) (err error) {
		doc, err = t.appendEventToLog(in, *ev)
		return err
	})
	return doc, err
}

// eventSearch collects a list of events.
type eventSearch struct {
	object.EventFilter            // Offset counts down while events are skipped
	after              chain.Time // Since

	show func(*store.Tx, *readQuota, []byte) ([]byte, error) // returns an audited message's event as the caller may see it

	list        object.JSON // an array without its end
	found, size int
}

// matches reports whether the list holds an event. It skips the first events that would match.
func (f *eventSearch) matches(kind, trace string, at chain.Time) bool {
	if f.Type != "" && kind != f.Type || f.TraceID != "" && trace != f.TraceID || at <= f.after {
		return false
	}
	f.Offset--
	return f.Offset < 0
}

// addEvent takes an event that was found, and reports whether the list is full.
func (f *eventSearch) addEvent(doc []byte) (full bool) {
	f.list = f.list.AppendMember(f.found == 0, doc)
	f.found++
	f.size += len(doc)
	return f.found >= f.Limit || f.size >= object.MaxListBytes
}

// ListEvents returns events of the intent's log, the newest first, as a JSON array.
func (e *Engine) ListEvents(c *Call, intentID string, which object.EventFilter) (object.JSON, error) {
	in, err := e.findIntentAndRecordUse(c, intentID, levelRead)
	if err != nil {
		return nil, err
	}
	if err := which.CheckBounds(); err != nil {
		return nil, err
	}
	f := &eventSearch{EventFilter: which, list: object.JSON{[]byte("[")}}
	if which.Since != "" {
		if f.after, err = chain.ParseTime(which.Since); err != nil {
			return nil, object.NewError("bad_cursor", "since: %v", err)
		}
	}
	f.show = func(stx *store.Tx, l *readQuota, doc []byte) ([]byte, error) {
		return e.redactAuditedEvent(stx, l, in, c.Caller, doc)
	}
	for before := int64(math.MaxInt64); before > 0 && err == nil; {
		err = e.readWithQuota(c.Context(), func(stx *store.Tx, l *readQuota) (err error) {
			before, err = f.searchBackward(c, stx, l, in.row, before)
			return err
		})
	}
	return append(f.list, []byte("]")), err
}

// searchBackward looks at the next events of a log before a sequence number, the newest first, as
// many as one read may, or until f is full. It returns the sequence number of the last event
// that it looked at, 0 if no more are wanted.
func (f *eventSearch) searchBackward(c *Call, stx *store.Tx, l *readQuota, intent, before int64) (last int64, err error) {
	all, err := eachRowWhile(stx, "SELECT seq, sequence, type, at, trace FROM openintent_event WHERE intent = ? AND sequence < ? ORDER BY sequence DESC", func(scan func(...any) error) (more bool, err error) {
		var seq int64
		var kind, trace string
		var at chain.Time
		if err := scan(&seq, &last, &kind, &at, &trace); err != nil {
			return false, err
		}
		more = l.spend(1, 0)
		if !f.matches(kind, trace, at) {
			return more, nil
		}
		var doc []byte
		if err := stx.QueryRow("SELECT doc FROM openintent_event WHERE seq = ?", seq).Scan(&doc); err != nil {
			return false, err
		}
		if more = l.spend(0, len(doc)) && more; kind == object.KindMessage {
			if doc, err = f.show(stx, l, doc); err != nil {
				return false, err
			}
			more = l.spend(0, 0) && more
		}
		if err := c.ChargeCaller(len(doc)); err != nil {
			return false, err
		}
		if f.addEvent(doc) {
			last = 0
			return false, nil
		}
		return more, nil
	}, intent, before)
	if all {
		last = 0
	}
	return last, err
}
