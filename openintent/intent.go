package openintent

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// Intent is the object of RFC-0001 as it is answered and stored.
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
	Host        string         `json:"host,omitzero"` // in lists: the daemon where it lives, if that is another
}

// intent is what rules need of an Intent, whose object is in the store alone, and
// what belongs to it.
type intent struct {
	row     int64
	id      string
	creator string // this and those above never change
	status  string
	version int64
	ended   chain.Time // when it became terminal, of one that was read from the store
	access
	grants   grants                           // what access says
	changes  int64                            // how often access has changed
	used     map[string]map[string]chain.Time // home ("" is here) -> id -> when the agent first used the intent
	reserved map[string]int                   // ids of agents here -> how many grants name them

	channels []*channel // in the order of creation
	tasks    []*task
	coords   []*coordinator

	shares map[string]share // what is on disk of other daemons' agents, by their home

	sequence int64  // of the last event
	hash     string // of the last event
}

func newIntent() *intent {
	return &intent{access: access{Policy: "open"}, used: make(map[string]map[string]chain.Time), reserved: make(map[string]int)}
}

const (
	statusDraft     = "draft"
	statusCompleted = "completed"
	statusAbandoned = "abandoned"
)

var intentStatuses = []string{statusDraft, "active", "blocked", "suspended_awaiting_input", statusCompleted, statusAbandoned}

func (in *intent) terminal() bool { return terminal(in.status) }

// terminal reports whether an intent with that status is over for good.
func terminal(status string) bool { return status == statusCompleted || status == statusAbandoned }

// CreateIntent is an intent as it is asked for.
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
		return doc, Refuse("not_here", "an intent is created at its creator's own daemon")
	}
	who, err := c.as("created_by", want.CreatedBy)
	if err != nil {
		return doc, err
	}
	creator := who.Agent
	if want.Title == "" || len(want.Title) > 1024 {
		return doc, Invalid("title", "1 to 1024 bytes are needed")
	}
	if len(want.DependsOn) > maxEntries {
		return doc, Invalid("depends_on", "at most %d", maxEntries)
	}
	if want.Constraints.Kind() == '[' { // the form of older clients
		want.Constraints = jsontext.Value(`{"rules":` + string(want.Constraints) + `}`)
	}
	for _, v := range []struct {
		field string
		value *jsontext.Value
	}{{"state", &want.State}, {"constraints", &want.Constraints}, {"governance_policy", &want.Governance}} {
		if v.field == "governance_policy" && (*v.value == nil || v.value.Kind() == 'n') {
			*v.value = jsontext.Value("null")
		} else if err := CheckObject(v.field, v.value); err != nil {
			return doc, err
		}
	}
	if len(want.State) > maxState {
		return doc, Refuse("too_large", "state: %d bytes, at most %d are kept; put large data elsewhere and refer to it", len(want.State), maxState)
	}
	doc = Intent{
		Title: want.Title, Description: want.Description, Version: 1, Status: statusDraft, State: want.State, Constraints: want.Constraints,
		Parent: want.Parent, ParentID: want.Parent, DependsOn: append([]string{}, want.DependsOn...), CreatedBy: creator, Confidence: want.Confidence, Governance: want.Governance,
	}
	err = e.write(c.Context(), false, func(t *tx) error {
		if len(e.intents) >= maxIntents {
			return tooMany("intents", maxIntents, "use those that there are")
		}
		doc.ID, doc.CreatedAt, doc.UpdatedAt = e.newID(idIntent, t.now), t.now, t.now
		in := newIntent()
		in.row, in.id, in.creator, in.status, in.version = t.row(), doc.ID, creator, doc.Status, doc.Version
		if err := t.insertIntent(in, doc); err != nil {
			return err
		}
		if k := (agentKey{"", creator}); !who.Operator {
			if err := t.insertUse(in, k); err != nil {
				return err
			}
			in.use(k, t.now)
		}
		t.apply(step{func() { e.intents[in.id] = in }, func() { delete(e.intents, in.id) }})
		_, err := t.log(in, event{kind: "intent_created", actor: who.name, payload: Members("title", doc.Title, "status", doc.Status)})
		return err
	})
	return doc, err
}

// view returns what show says of an intent, if the caller may read it. Nothing changes while
// show looks.
func view[T any](e *Engine, c *Call, id string, show func(*intent) T) (shown T, err error) {
	in, err := e.intent(c, id, levelRead)
	if err != nil {
		return shown, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return show(in), nil
}

// GetIntent returns an intent's object.
func (e *Engine) GetIntent(c *Call, id string) (jsontext.Value, error) {
	in, err := e.intent(c, id, levelRead)
	if err != nil {
		return nil, err
	}
	docs, err := e.intentDocs(c.Context(), []listed{{row: in.row}}, MaxListBytes, c.Charge)
	if err == nil && len(docs) == 0 {
		err = notFound("intent")
	}
	if err != nil {
		return nil, err
	}
	return docs[0], nil
}

// IntentList describes a list of intents.
type IntentList struct {
	Intents []Intent `json:"intents"`
}

// ListIntents returns the objects of a page of the intents with the status ("": any) that the
// caller may read, the newest first. others returns the intents of other hosts that stand among them, at least
// so many of each host as need says.
func (e *Engine) ListIntents(c *Call, status string, p Page, others func(status string, need int) []Intent) ([]jsontext.Value, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if status != "" && !slices.Contains(intentStatuses, status) {
		return nil, Invalid("status", "one of %s", strings.Join(intentStatuses, ", "))
	}
	var all []listed
	for _, in := range others(status, p.Offset+p.Limit) {
		all = append(all, listed{ulid: in.ID[len(in.ID)-ulidLen:], doc: jsontext.Value(text(in))})
	}
	here := 0
	at := now()
	e.rlocked(func() {
		for _, in := range slices.SortedFunc(maps.Values(e.intents), func(a, b *intent) int { return cmp.Compare(b.row, a.row) }) {
			if here == p.Offset+p.Limit {
				break
			}
			if status != "" && in.status != status {
				continue
			}
			if _, _, err := e.enter(in.id, c.Caller, levelRead, at); err == nil {
				all = append(all, listed{ulid: in.id[len(in.id)-ulidLen:], row: in.row})
				here++
			}
		}
	})
	if len(all) > here {
		slices.SortFunc(all, func(a, b listed) int { return cmp.Compare(b.ulid, a.ulid) })
	}
	return e.intentDocs(c.Context(), PageOf(all, p), c.ListRoom(), c.Charge)
}

// listed is an intent in a list.
type listed struct {
	ulid string         // of its id: sorts by time
	row  int64          // of one that lives here
	doc  jsontext.Value // of one that lives elsewhere
}

// StatusChange is a new status, of an intent, an agent or a message.
type StatusChange struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitzero"`
}

func (s *StatusChange) check(statuses []string) error {
	if !slices.Contains(statuses, s.Status) {
		return Invalid("status", "one of %s", strings.Join(statuses, ", "))
	}
	if len(s.Reason) > 4096 {
		return Invalid("reason", "at most 4096 bytes")
	}
	return nil
}

// SetIntentStatus changes the status of the intent, if it has the version that version
// returns. Its error is returned once want has been checked.
func (e *Engine) SetIntentStatus(c *Call, id string, version func() (int64, error), want *StatusChange) (jsontext.Value, error) {
	if err := want.check(intentStatuses); err != nil {
		return nil, err
	}
	return e.changeIntent(c, id, version, func(doc *Intent) (*event, error) {
		if doc.Status == want.Status {
			return nil, nil
		}
		if terminal(doc.Status) {
			return nil, Refuse("intent_terminal", "the intent is %s, which is final: create another", doc.Status)
		}
		payload := Members("old_status", doc.Status, "new_status", want.Status, "reason", want.Reason)
		doc.Status = want.Status
		return newEvent("status_changed", payload)
	})
}

// changeIntent lets change have the next version of the intent's object, if version returns
// the present one. change returns the event to log, or nil if nothing changes. It works on what
// a read has found, outside of the write, which keeps its outcome only if that version is
// still the present one.
func (e *Engine) changeIntent(c *Call, id string, version func() (int64, error), change func(*Intent) (*event, error)) (jsontext.Value, error) {
	known, err := version()
	if err != nil {
		return nil, err
	}
	in, ev, doc, err := e.prepareChange(c, id, known, change)
	if err != nil {
		return nil, err
	}
	next := ""
	if ev != nil {
		ev.actor = c.Caller.name
		doc.Version++
		doc.UpdatedAt = now()
		next = text(doc)
	}
	err = e.writeIntent(c, in.id, levelWrite, func(t *tx, in *intent) error {
		if in.version != known {
			return versionConflict(in.version)
		}
		if ev == nil {
			return nil
		}
		if err := t.saveIntent(in, next); err != nil {
			return err
		}
		status := in.status
		t.apply(step{func() { in.status, in.version = doc.Status, doc.Version }, func() { in.status, in.version = status, known }})
		if _, err := t.log(in, *ev); err != nil {
			return err
		}
		if in.terminal() {
			t.end(in, doc.UpdatedAt, func(*channel) bool { return true })
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if ev == nil {
		next = text(doc)
	}
	return jsontext.Value(next), nil
}

// prepareChange has change make its event of the intent's object as it is. What can be
// refused is refused before the object is read.
func (e *Engine) prepareChange(c *Call, id string, version int64, change func(*Intent) (*event, error)) (in *intent, ev *event, doc Intent, err error) {
	if in, _, err = e.look(c, id, levelWrite); err != nil {
		return nil, nil, doc, err
	}
	var present int64
	e.rlocked(func() {
		present, err = in.version, e.roomOnIntent(in, c.Caller.Home, c.Size+headRoom)
	})
	if err == nil && present != version {
		err = versionConflict(present)
	}
	if err != nil {
		return nil, nil, doc, err
	}
	if doc, err = e.readIntent(c.Context(), in); err != nil {
		return nil, nil, doc, err
	}
	if doc.Version != version {
		return nil, nil, doc, versionConflict(doc.Version)
	}
	ev, err = change(&doc)
	return in, ev, doc, err
}

func versionConflict(current int64) *Error {
	return Refuse("version_conflict", "the version is %s by now: read it again and repeat the change", strconv.FormatInt(current, 10)).With("current_version", current)
}
