package openintent

import (
	"cmp"
	"maps"
	"net/http"
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

type createIntent struct {
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

func (e *Engine) createIntent(c *call) (int, any, error) {
	var body createIntent
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	if c.who.Home != "" {
		return 0, nil, forbidden("not_here", "an intent is created at its creator's own daemon")
	}
	who, err := c.as("created_by", body.CreatedBy)
	if err != nil {
		return 0, nil, err
	}
	creator := who.Agent
	if body.Title == "" || len(body.Title) > 1024 {
		return 0, nil, invalid("title", "1 to 1024 bytes are needed")
	}
	if len(body.DependsOn) > maxEntries {
		return 0, nil, invalid("depends_on", "at most %d", maxEntries)
	}
	if body.Constraints.Kind() == '[' { // the form of older clients
		body.Constraints = jsontext.Value(`{"rules":` + string(body.Constraints) + `}`)
	}
	for _, v := range []struct {
		field string
		value *jsontext.Value
	}{{"state", &body.State}, {"constraints", &body.Constraints}, {"governance_policy", &body.Governance}} {
		if v.field == "governance_policy" && (*v.value == nil || v.value.Kind() == 'n') {
			*v.value = jsontext.Value("null")
		} else if err := object(v.field, v.value); err != nil {
			return 0, nil, err
		}
	}
	if len(body.State) > maxState {
		return 0, nil, refuse(http.StatusRequestEntityTooLarge, "too_large", "state: %d bytes, at most %d are kept; put large data elsewhere and refer to it", len(body.State), maxState)
	}
	doc := Intent{
		Title: body.Title, Description: body.Description, Version: 1, Status: statusDraft, State: body.State, Constraints: body.Constraints,
		Parent: body.Parent, ParentID: body.Parent, DependsOn: append([]string{}, body.DependsOn...), CreatedBy: creator, Confidence: body.Confidence, Governance: body.Governance,
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
		_, err := t.log(in, event{kind: "intent_created", actor: who.name, payload: members("title", doc.Title, "status", doc.Status)})
		return err
	})
	return http.StatusCreated, doc, err
}

// view answers with what an intent shows to who may read it. Nothing changes while
// show looks.
func (e *Engine) view(c *call, show func(*intent) any) (int, any, error) {
	in, err := e.intent(c, c.arg(0), levelRead)
	if err != nil {
		return 0, nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return http.StatusOK, show(in), nil
}

func (e *Engine) getIntent(c *call) (int, any, error) {
	in, err := e.intent(c, c.arg(0), levelRead)
	if err != nil {
		return 0, nil, err
	}
	docs, err := e.intentDocs(c.Context(), []listed{{row: in.row}}, maxListBytes, c.take)
	if err == nil && len(docs) == 0 {
		err = notFound("intent")
	}
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, docs[0], nil
}

// intentList describes a list of intents.
type intentList struct {
	Intents []Intent `json:"intents"`
}

func (e *Engine) listIntents(c *call) (int, any, error) {
	q := c.query()
	limit, offset, err := q.page(50)
	if err != nil {
		return 0, nil, err
	}
	status := q.Get("status")
	if status != "" && !slices.Contains(intentStatuses, status) {
		return 0, nil, invalid("status", "one of %s", strings.Join(intentStatuses, ", "))
	}
	all := c.gatherIntents(status, offset+limit)
	here := 0
	at := now()
	e.rlocked(func() {
		for _, in := range slices.SortedFunc(maps.Values(e.intents), func(a, b *intent) int { return cmp.Compare(b.row, a.row) }) {
			if here == offset+limit {
				break
			}
			if status != "" && in.status != status {
				continue
			}
			if _, _, err := e.enter(in.id, c.who, levelRead, at); err == nil {
				all = append(all, listed{ulid: in.id[len(in.id)-ulidLen:], row: in.row})
				here++
			}
		}
	})
	if len(all) > here {
		slices.SortFunc(all, func(a, b listed) int { return cmp.Compare(b.ulid, a.ulid) })
	}
	all = all[min(offset, len(all)):]
	docs, err := e.intentDocs(c.Context(), all[:min(limit, len(all))], c.room(), c.take)
	p := parts{[]byte(`{"intents":[`)}
	for i, doc := range docs {
		p = p.list(i == 0, doc)
	}
	return http.StatusOK, append(p, []byte("]}")), err
}

// listed is an intent in a list.
type listed struct {
	ulid string         // of its id: sorts by time
	row  int64          // of one that lives here
	doc  jsontext.Value // of one that lives elsewhere
}

type statusChange struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitzero"`
}

func (e *Engine) setStatus(c *call) (int, any, error) {
	var body statusChange
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	if !slices.Contains(intentStatuses, body.Status) {
		return 0, nil, invalid("status", "one of %s", strings.Join(intentStatuses, ", "))
	}
	if len(body.Reason) > 4096 {
		return 0, nil, invalid("reason", "at most 4096 bytes")
	}
	return e.changeIntent(c, func(doc *Intent) (*event, error) {
		if doc.Status == body.Status {
			return nil, nil
		}
		if terminal(doc.Status) {
			return nil, conflict("intent_terminal", "the intent is %s, which is final: create another", doc.Status)
		}
		payload := members("old_status", doc.Status, "new_status", body.Status, "reason", body.Reason)
		doc.Status = body.Status
		return newEvent("status_changed", payload)
	})
}

// changeIntent lets change have the next version of the intent's object, if If-Match
// names the present one. change returns the event to log, or nil where nothing changes.
// It works on what a read has found, outside of the write, which keeps its outcome only
// if that version is still the present one.
func (e *Engine) changeIntent(c *call, change func(*Intent) (*event, error)) (int, any, error) {
	version, err := c.ifMatch(http.StatusBadRequest)
	if err != nil {
		return 0, nil, err
	}
	in, ev, doc, err := e.prepareChange(c, version, change)
	if err != nil {
		return 0, nil, err
	}
	next := ""
	if ev != nil {
		ev.actor = c.who.name
		doc.Version++
		doc.UpdatedAt = now()
		next = text(doc)
	}
	err = e.writeIntent(c, in.id, levelWrite, func(t *tx, in *intent) error {
		if in.version != version {
			return versionConflict(in.version)
		}
		if ev == nil {
			return nil
		}
		if err := t.saveIntent(in, next); err != nil {
			return err
		}
		status := in.status
		t.apply(step{func() { in.status, in.version = doc.Status, doc.Version }, func() { in.status, in.version = status, version }})
		if _, err := t.log(in, *ev); err != nil {
			return err
		}
		if in.terminal() {
			t.end(in, doc.UpdatedAt, func(*channel) bool { return true })
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	if ev == nil {
		next = text(doc)
	}
	return http.StatusOK, jsontext.Value(next), nil
}

// prepareChange has change make its event of the intent's object as it is. What can be
// refused is refused before the object is read.
func (e *Engine) prepareChange(c *call, version int64, change func(*Intent) (*event, error)) (in *intent, ev *event, doc Intent, err error) {
	if in, _, err = e.look(c, c.arg(0), levelWrite); err != nil {
		return nil, nil, doc, err
	}
	var present int64
	e.rlocked(func() {
		present, err = in.version, e.roomOnIntent(in, c.who.Home, len(c.body)+c.route.room+headRoom)
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
	return conflict("version_conflict", "the version is %s by now: read it again and repeat the change", strconv.FormatInt(current, 10)).with("current_version", current)
}
