package openintent

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sort"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// intentRecord keeps what rules need of an [object.Intent], whose object is only in the store, and
// everything that belongs to the intent.
type intentRecord struct {
	row     int64
	id      string
	creator string // this and those above never change
	status  string
	version int64
	ended   chain.Time // when it became terminal, of one that was read from the store
	access
	grants   grants                           // the index of access
	changes  int64                            // the number of the last change of access
	used     map[string]map[string]chain.Time // home ("" is here) -> id -> when the agent first used the intent
	reserved map[string]int                   // ids of agents here -> how many grants name them

	channels []*channelRecord // in the order of creation
	tasks    []*taskRecord
	coords   []*coordinatorRecord

	shares map[string]diskShare // of other daemons' agents on disk, by their home

	sequence int64  // of the last event
	hash     string // of the last event
}

// newIntentRecord returns an open intent that nobody has used.
func newIntentRecord() *intentRecord {
	return &intentRecord{access: access{Policy: "open"}, used: make(map[string]map[string]chain.Time), reserved: make(map[string]int)}
}

// isTerminal reports whether the intent is over for good.
func (in *intentRecord) isTerminal() bool { return object.IsTerminalStatus(in.status) }

// CreateIntent creates an intent, which lives here.
func (e *Engine) CreateIntent(c *Call, want *object.CreateIntent) (doc object.Intent, err error) {
	if c.Caller.Home != "" {
		return doc, object.NewError("not_here", "an intent is created at its creator's own daemon")
	}
	who, err := c.resolveActingCaller("created_by", want.CreatedBy)
	if err != nil {
		return doc, err
	}
	creator := who.Agent
	if doc, err = want.NewIntent(creator); err != nil {
		return doc, err
	}
	err = e.runTransaction(c.Context(), false, func(t *tx) error {
		if len(e.intents) >= maxWork {
			return object.NewTooManyError("intents", maxWork, "use those that there are")
		}
		doc.ID, doc.CreatedAt, doc.UpdatedAt = e.newID(object.IDIntent, t.now), t.now, t.now
		in := newIntentRecord()
		in.row, in.id, in.creator, in.status, in.version = t.nextRowNumber(), doc.ID, creator, doc.Status, doc.Version
		if err := t.execute("INSERT INTO openintent_intent (row, id, doc, access) VALUES (?, ?, ?, ?)", in.row, in.id, object.EncodeJSONText(doc), object.EncodeJSONText(in.access)); err != nil {
			return err
		}
		if k := (agentKey{"", creator}); !who.Operator {
			if err := t.insertFirstUse(in, k); err != nil {
				return err
			}
			t.setFirstUse(in, k, t.now)
		}
		e.withLock(func() { put(t, e.intents, in.id, in) })
		_, err := t.appendEventToLog(in, eventDraft{kind: "intent_created", actor: who.name, payload: object.EncodeJSONObject("title", doc.Title, "status", doc.Status)})
		return err
	})
	return doc, err
}

// viewIntent returns what show returns of an intent, if the caller may read the intent and
// check, which may be nil, returns no error. The world is read-locked while show runs.
func viewIntent[T any](e *Engine, c *Call, id string, check func() error, show func(*intentRecord) T) (shown T, err error) {
	in, err := e.findIntentAndRecordUse(c, id, levelRead)
	if err == nil && check != nil {
		err = check()
	}
	if err != nil {
		return shown, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return show(in), nil
}

// GetIntent returns an intent's object.
func (e *Engine) GetIntent(c *Call, id string) (jsontext.Value, error) {
	in, err := e.findIntentAndRecordUse(c, id, levelRead)
	if err != nil {
		return nil, err
	}
	return e.readIntentDoc(c.Context(), in, c.ChargeCaller)
}

// ListIntents returns the objects of a page of the intents with the status ("": any) that the
// caller may read, the newest first. others returns the intents of other hosts, of each host
// the first ones, at least as many as need says.
func (e *Engine) ListIntents(c *Call, status string, p object.Page, others func(status string, need int) []object.Intent) ([]jsontext.Value, error) {
	if err := p.CheckBounds(); err != nil {
		return nil, err
	}
	if status != "" {
		if err := object.CheckOneOf("status", status, object.IntentStatuses); err != nil {
			return nil, err
		}
	}
	var all []listedIntent
	for _, in := range others(status, p.Offset+p.Limit) {
		all = append(all, listedIntent{ulid: in.ID[len(in.ID)-object.ULIDLength:], doc: jsontext.Value(object.EncodeJSONText(in))})
	}
	here := 0
	at := now()
	e.withReadLock(func() {
		for _, in := range slices.SortedFunc(maps.Values(e.intents), func(a, b *intentRecord) int { return cmp.Compare(b.row, a.row) }) {
			if here == p.Offset+p.Limit {
				break
			}
			if status != "" && in.status != status {
				continue
			}
			if _, _, err := e.authorizeForIntent(in.id, c.Caller, levelRead, at); err == nil {
				all = append(all, listedIntent{ulid: in.id[len(in.id)-object.ULIDLength:], row: in.row})
				here++
			}
		}
	})
	if len(all) > here {
		sort.Slice(all, func(i, j int) bool { return all[i].ulid > all[j].ulid })
	}
	return e.readIntentDocs(c.Context(), object.CutPage(all, p), c.ListByteLimit(), c.ChargeCaller)
}

// listedIntent is an intent in a list.
type listedIntent struct {
	ulid string         // of its id: sorts by time
	row  int64          // of one that lives here
	doc  jsontext.Value // of one that lives elsewhere
}

// SetIntentStatus changes the status of the intent, if the intent has the version that version
// returns. An error of version is returned after want has been checked.
func (e *Engine) SetIntentStatus(c *Call, id string, version func() (int64, error), want *object.StatusChange) (jsontext.Value, error) {
	if err := want.CheckStatus(object.IntentStatuses); err != nil {
		return nil, err
	}
	return e.changeIntent(c, id, version, func(doc *object.Intent) (*eventDraft, error) {
		if doc.Status == want.Status {
			return nil, nil
		}
		if object.IsTerminalStatus(doc.Status) {
			return nil, object.NewError("intent_terminal", "the intent is %s, which is final: create another", doc.Status)
		}
		payload := object.EncodeJSONObject("old_status", doc.Status, "new_status", want.Status, "reason", want.Reason)
		doc.Status = want.Status
		return newEventDraft("status_changed", payload)
	})
}

// PatchState changes the state of the intent, if the intent has the version that version returns.
// An error of version is returned after s has been checked.
func (e *Engine) PatchState(c *Call, id string, version func() (int64, error), s *object.StatePatch) (jsontext.Value, error) {
	if err := s.CheckPatches(); err != nil {
		return nil, err
	}
	return e.changeIntent(c, id, version, func(doc *object.Intent) (*eventDraft, error) {
		if object.IsTerminalStatus(doc.Status) {
			return nil, object.NewError("intent_terminal", "the intent is %s: its state is final", doc.Status)
		}
		if len(s.Patches) == 0 {
			return nil, nil
		}
		payload, err := s.ApplyTo(doc)
		if err != nil {
			return nil, err
		}
		return newEventDraft("state_patched", payload)
	})
}

// changeIntent makes the next version of the intent's object with change, if version returns
// the present one. change returns the event to log, or nil if nothing changes. It runs outside
// of the write, on an object that was read before. The write keeps the outcome only if the
// intent still has that version.
func (e *Engine) changeIntent(c *Call, id string, version func() (int64, error), change func(*object.Intent) (*eventDraft, error)) (jsontext.Value, error) {
	known, err := version()
	if err != nil {
		return nil, err
	}
	in, ev, doc, err := e.prepareIntentChange(c, id, known, change)
	if err != nil {
		return nil, err
	}
	next := ""
	if ev != nil {
		ev.actor = c.Caller.name
		doc.Version++
		doc.UpdatedAt = now()
		next = object.EncodeJSONText(doc)
	}
	err = e.writeIfAuthorized(c, in.id, levelWrite, func(t *tx, in *intentRecord) error {
		if in.version != known {
			return newVersionConflict(in.version)
		}
		if ev == nil {
			return nil
		}
		if err := t.execute("UPDATE openintent_intent SET doc = ? WHERE row = ?", next, in.row); err != nil {
			return err
		}
		e.withLock(func() {
			set(t, &in.status, doc.Status)
			set(t, &in.version, doc.Version)
		})
		if _, err := t.appendEventToLog(in, *ev); err != nil {
			return err
		}
		if in.isTerminal() {
			t.closeChannelsWhere(in, doc.UpdatedAt, func(*channelRecord) bool { return true })
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if ev == nil {
		next = object.EncodeJSONText(doc)
	}
	return jsontext.Value(next), nil
}

// prepareIntentChange reads the intent's object and runs change on it. It refuses what it can
// before it reads the object.
func (e *Engine) prepareIntentChange(c *Call, id string, version int64, change func(*object.Intent) (*eventDraft, error)) (in *intentRecord, ev *eventDraft, doc object.Intent, err error) {
	if in, _, err = e.findIntent(c, id, levelWrite); err != nil {
		return nil, nil, doc, err
	}
	var present int64
	e.withReadLock(func() {
		present, err = in.version, e.checkIntentDiskShare(in, c.Caller.Home, c.Size+headRoom)
	})
	if err == nil && present != version {
		err = newVersionConflict(present)
	}
	if err != nil {
		return nil, nil, doc, err
	}
	text, err := e.readIntentDoc(c.Context(), in, func(int) error { return nil })
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err == nil && doc.Version != version {
		err = newVersionConflict(doc.Version)
	}
	if err != nil {
		return nil, nil, doc, err
	}
	ev, err = change(&doc)
	return in, ev, doc, err
}

// newVersionConflict refuses a change that was made of another version than the current one.
func newVersionConflict(current int64) *object.Error {
	return object.NewError("version_conflict", "the version is %s by now: read it again and repeat the change", strconv.FormatInt(current, 10)).WithMember("current_version", current)
}

// readIntentDoc reads the object of an intent, once take has accepted its length.
func (e *Engine) readIntentDoc(ctx context.Context, in *intentRecord, take func(int) error) (jsontext.Value, error) {
	docs, err := e.readIntentDocs(ctx, []listedIntent{{row: in.row}}, object.MaxListBytes, take)
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		return nil, object.NewNotFoundError("intent")
	}
	return docs[0], nil
}

// readIntentDocs reads the objects of listed intents until they have room bytes. take may
// refuse each by its length.
func (e *Engine) readIntentDocs(ctx context.Context, list []listedIntent, room int, take func(int) error) ([]jsontext.Value, error) {
	docs, size := []jsontext.Value{}, 0
	err := e.readWithQuota(ctx, func(stx *store.Tx, l *readQuota) error {
		for _, in := range list {
			doc := in.doc
			if doc == nil {
				err := stx.QueryRow("SELECT doc FROM openintent_intent WHERE row = ?", in.row).Scan((*[]byte)(&doc))
				if errors.Is(err, sql.ErrNoRows) {
					continue // the write that makes it is under way
				}
				if err != nil {
					return err
				}
			}
			if err := take(len(doc)); err != nil {
				return err
			}
			l.spend(1, len(doc))
			docs = append(docs, doc)
			if size += len(doc); size >= room {
				break
			}
		}
		return nil
	})
	return docs, err
}
