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
	"github.com/acpd/acpd/store"
)

// Intent is the object of RFC-0001, as it is answered and stored.
type Intent struct {
	ID          string         `json:"id"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Version     int64          `json:"version"`
	Status      string         `json:"status"`
	State       jsontext.Value `json:"state"`
	Constraints jsontext.Value `json:"constraints"`
	Parent      *string        `json:"parent_intent_id"`
	ParentID    *string        `json:"parent_id"` // the same: servers and clients differ in its name
	DependsOn   []string       `json:"depends_on"`
	CreatedBy   string         `json:"created_by"`
	CreatedAt   chain.Time     `json:"created_at"`
	UpdatedAt   chain.Time     `json:"updated_at"`
	Confidence  int64          `json:"confidence"`
	Governance  jsontext.Value `json:"governance_policy"`
	Host        string         `json:"host,omitzero"` // in lists: the daemon on which it lives, if that is another
}

// intentRecord keeps what rules need of an [Intent], whose object is only in the store, and
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

const (
	statusDraft     = "draft"
	statusCompleted = "completed"
	statusAbandoned = "abandoned"
)

var intentStatuses = []string{statusDraft, "active", "blocked", "suspended_awaiting_input", statusCompleted, statusAbandoned}

// isTerminal reports whether the intent is over for good.
func (in *intentRecord) isTerminal() bool { return isTerminalStatus(in.status) }

// isTerminalStatus reports whether an intent with that status is over for good.
func isTerminalStatus(status string) bool {
	return status == statusCompleted || status == statusAbandoned
}

// CreateIntent asks for a new intent.
type CreateIntent struct {
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Constraints jsontext.Value `json:"constraints"`
	State       jsontext.Value `json:"state"`
	CreatedBy   string         `json:"created_by"`
	Parent      *string        `json:"parent_intent_id"`
	DependsOn   []string       `json:"depends_on"`
	Confidence  int64          `json:"confidence"`
	Governance  jsontext.Value `json:"governance_policy"`
}

// CreateIntent creates an intent, which lives here.
func (e *Engine) CreateIntent(c *Call, want *CreateIntent) (doc Intent, err error) {
	if c.Caller.Home != "" {
		return doc, NewError("not_here", "an intent is created at its creator's own daemon")
	}
	who, err := c.resolveActingCaller("created_by", want.CreatedBy)
	if err != nil {
		return doc, err
	}
	creator := who.Agent
	if want.Title == "" || len(want.Title) > 1024 {
		return doc, NewFieldError("title", "1 to 1024 bytes are needed")
	}
	if err := checkAtMost("depends_on", len(want.DependsOn), maxEntries, ""); err != nil {
		return doc, err
	}
	if want.Constraints.Kind() == '[' { // the form of older clients
		want.Constraints = jsontext.Value(`{"rules":` + string(want.Constraints) + `}`)
	}
	if err := cmp.Or(NormalizeJSONObject("state", &want.State), NormalizeJSONObject("constraints", &want.Constraints)); err != nil {
		return doc, err
	}
	if want.Governance == nil || want.Governance.Kind() == 'n' {
		want.Governance = jsontext.Value("null")
	} else if err := NormalizeJSONObject("governance_policy", &want.Governance); err != nil {
		return doc, err
	}
	if len(want.State) > maxState {
		return doc, NewError("too_large", "state: %d bytes, at most %d are kept; put large data elsewhere and refer to it", len(want.State), maxState)
	}
	doc = Intent{
		Title: want.Title, Description: want.Description, Version: 1, Status: statusDraft, State: want.State, Constraints: want.Constraints,
		Parent: want.Parent, ParentID: want.Parent, DependsOn: append([]string{}, want.DependsOn...), CreatedBy: creator, Confidence: want.Confidence, Governance: want.Governance,
	}
	err = e.runTransaction(c.Context(), false, func(t *tx) error {
		if len(e.intents) >= maxIntents {
			return newTooManyError("intents", maxIntents, "use those that there are")
		}
		doc.ID, doc.CreatedAt, doc.UpdatedAt = e.newID(idIntent, t.now), t.now, t.now
		in := newIntentRecord()
		in.row, in.id, in.creator, in.status, in.version = t.nextRowNumber(), doc.ID, creator, doc.Status, doc.Version
		if err := t.execute("INSERT INTO openintent_intent (row, id, doc, access) VALUES (?, ?, ?, ?)", in.row, in.id, encodeJSONText(doc), encodeJSONText(in.access)); err != nil {
			return err
		}
		if k := (agentKey{"", creator}); !who.Operator {
			if err := t.insertFirstUse(in, k); err != nil {
				return err
			}
			t.setFirstUse(in, k, t.now)
		}
		e.withLock(func() { put(t, e.intents, in.id, in) })
		_, err := t.appendEventToLog(in, eventDraft{kind: "intent_created", actor: who.name, payload: EncodeJSONObject("title", doc.Title, "status", doc.Status)})
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

// IntentList describes a list of intents.
type IntentList struct {
	Intents []Intent `json:"intents"`
}

// ListIntents returns the objects of a page of the intents with the status ("": any) that the
// caller may read, the newest first. others returns the intents of other hosts, of each host
// the first ones, at least as many as need says.
func (e *Engine) ListIntents(c *Call, status string, p Page, others func(status string, need int) []Intent) ([]jsontext.Value, error) {
	if err := p.checkBounds(); err != nil {
		return nil, err
	}
	if status != "" {
		if err := checkOneOf("status", status, intentStatuses); err != nil {
			return nil, err
		}
	}
	var all []listedIntent
	for _, in := range others(status, p.Offset+p.Limit) {
		all = append(all, listedIntent{ulid: in.ID[len(in.ID)-ulidLen:], doc: jsontext.Value(encodeJSONText(in))})
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
				all = append(all, listedIntent{ulid: in.id[len(in.id)-ulidLen:], row: in.row})
				here++
			}
		}
	})
	if len(all) > here {
		sort.Slice(all, func(i, j int) bool { return all[i].ulid > all[j].ulid })
	}
	return e.readIntentDocs(c.Context(), cutPage(all, p), c.ListByteLimit(), c.ChargeCaller)
}

// listedIntent is an intent in a list.
type listedIntent struct {
	ulid string         // of its id: sorts by time
	row  int64          // of one that lives here
	doc  jsontext.Value // of one that lives elsewhere
}

// StatusChange asks for a new status of an intent, an agent or a message.
type StatusChange struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitzero"`
}

// checkStatus refuses a status that is not in the list, and a reason that is too long.
func (s *StatusChange) checkStatus(statuses []string) error {
	return cmp.Or(checkOneOf("status", s.Status, statuses), checkAtMost("reason", len(s.Reason), 4096, " bytes"))
}

// SetIntentStatus changes the status of the intent, if the intent has the version that version
// returns. An error of version is returned after want has been checked.
func (e *Engine) SetIntentStatus(c *Call, id string, version func() (int64, error), want *StatusChange) (jsontext.Value, error) {
	if err := want.checkStatus(intentStatuses); err != nil {
		return nil, err
	}
	return e.changeIntent(c, id, version, func(doc *Intent) (*eventDraft, error) {
		if doc.Status == want.Status {
			return nil, nil
		}
		if isTerminalStatus(doc.Status) {
			return nil, NewError("intent_terminal", "the intent is %s, which is final: create another", doc.Status)
		}
		payload := EncodeJSONObject("old_status", doc.Status, "new_status", want.Status, "reason", want.Reason)
		doc.Status = want.Status
		return newEventDraft("status_changed", payload)
	})
}

// changeIntent makes the next version of the intent's object with change, if version returns
// the present one. change returns the event to log, or nil if nothing changes. It runs outside
// of the write, on an object that was read before. The write keeps the outcome only if the
// intent still has that version.
func (e *Engine) changeIntent(c *Call, id string, version func() (int64, error), change func(*Intent) (*eventDraft, error)) (jsontext.Value, error) {
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
		next = encodeJSONText(doc)
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
		next = encodeJSONText(doc)
	}
	return jsontext.Value(next), nil
}

// prepareIntentChange reads the intent's object and runs change on it. It refuses what it can
// before it reads the object.
func (e *Engine) prepareIntentChange(c *Call, id string, version int64, change func(*Intent) (*eventDraft, error)) (in *intentRecord, ev *eventDraft, doc Intent, err error) {
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
func newVersionConflict(current int64) *Error {
	return NewError("version_conflict", "the version is %s by now: read it again and repeat the change", strconv.FormatInt(current, 10)).WithMember("current_version", current)
}

// readIntentDoc reads the object of an intent, once take has accepted its length.
func (e *Engine) readIntentDoc(ctx context.Context, in *intentRecord, take func(int) error) (jsontext.Value, error) {
	docs, err := e.readIntentDocs(ctx, []listedIntent{{row: in.row}}, MaxListBytes, take)
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		return nil, newNotFoundError("intent")
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
