package openintent

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	CreatedAt   stamp          `json:"created_at"`
	UpdatedAt   stamp          `json:"updated_at"`
	Confidence  int64          `json:"confidence"`
	Governance  jsontext.Value `json:"governance_policy"`
}

// intent is an Intent and what belongs to it.
type intent struct {
	row int64
	doc Intent
	access

	channels []*channel // in the order of creation
	tasks    []*task
	coords   []*coordinator

	sequence int64  // of the last event
	hash     string // of the last event
}

const (
	statusDraft     = "draft"
	statusCompleted = "completed"
	statusAbandoned = "abandoned"
)

var intentStatuses = []string{statusDraft, "active", "blocked", "suspended_awaiting_input", statusCompleted, statusAbandoned}

func (in *intent) terminal() bool {
	return in.doc.Status == statusCompleted || in.doc.Status == statusAbandoned
}

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
	creator, err := c.actor("created_by", body.CreatedBy)
	if err != nil {
		return 0, nil, err
	}
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
	var in *intent
	err = e.write(c.Context(), false, func(t *tx) error {
		if len(e.intents) >= maxIntents {
			return tooMany("intents", maxIntents)
		}
		in = &intent{row: t.row(), access: newAccess(), doc: Intent{
			ID: e.newID(idIntent, t.now), Title: body.Title, Description: body.Description, Version: 1, Status: statusDraft,
			State: body.State, Constraints: body.Constraints, Parent: body.Parent, ParentID: body.Parent, DependsOn: append([]string{}, body.DependsOn...),
			CreatedBy: creator, CreatedAt: t.now, UpdatedAt: t.now, Confidence: body.Confidence, Governance: body.Governance,
		}}
		if creator != operator {
			in.Homes[creator] = c.who.Home
		}
		if err := t.saveIntent(in, in.doc, in.access); err != nil {
			return err
		}
		t.apply(func() { e.intents[in.doc.ID] = in })
		_, err := t.log(in, event{kind: "intent_created", actor: creator, payload: members("title", in.doc.Title, "status", in.doc.Status)})
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, e.shown(in), nil
}

// shown copies the intent's object.
func (e *Engine) shown(in *intent) Intent {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return in.doc
}

func (e *Engine) getIntent(c *call) (int, any, error) {
	in, err := e.intent(c, c.arg(0), levelRead)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, e.shown(in), nil
}

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
	list := intentList{Intents: []Intent{}}
	at := now()
	e.mu.RLock()
	defer e.mu.RUnlock()
	all := slices.SortedFunc(maps.Values(e.intents), func(a, b *intent) int { return int(b.row - a.row) })
	for _, in := range all {
		if (status != "" && in.doc.Status != status) || e.level(in, c.who, at) < levelRead {
			continue
		}
		if offset--; offset >= 0 {
			continue
		}
		if len(list.Intents) == limit {
			break
		}
		list.Intents = append(list.Intents, in.doc)
	}
	return http.StatusOK, list, nil
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
	return e.changeIntent(c, func(t *tx, in *intent, doc *Intent) (*event, error) {
		if doc.Status == body.Status {
			return nil, nil
		}
		if in.terminal() {
			return nil, conflict("intent_terminal", "the intent is %s, which is final: create another", doc.Status)
		}
		ev := &event{kind: "status_changed", payload: members("old_status", doc.Status, "new_status", body.Status, "reason", body.Reason)}
		doc.Status = body.Status
		return ev, nil
	})
}

type statePatch struct {
	Patches []patch        `json:"patches,omitzero"`
	State   jsontext.Value `json:"state,omitzero"`
}

type patch struct {
	Op    string         `json:"op"`
	Path  string         `json:"path"`
	Value jsontext.Value `json:"value,omitzero"`
}

const maxState = 256 << 10 // bytes of an intent's state

func (e *Engine) patchState(c *call) (int, any, error) {
	var body statePatch
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	if body.State != nil {
		var state map[string]jsontext.Value
		if err := json.Unmarshal(body.State, &state); err != nil || state == nil {
			return 0, nil, invalid("state", "an object is needed")
		}
		for _, name := range slices.Sorted(maps.Keys(state)) {
			body.Patches = append(body.Patches, patch{Op: "set", Path: name, Value: state[name]})
		}
	}
	if len(body.Patches) > maxEntries {
		return 0, nil, invalid("patches", "at most %d", maxEntries)
	}
	return e.changeIntent(c, func(t *tx, in *intent, doc *Intent) (*event, error) {
		if in.terminal() {
			return nil, conflict("intent_terminal", "the intent is %s: its state is final", doc.Status)
		}
		if len(body.Patches) == 0 {
			return nil, nil
		}
		var state map[string]jsontext.Value
		if err := json.Unmarshal(doc.State, &state); err != nil {
			return nil, err
		}
		// What was touched, as it was and as it is: this is what agents are told.
		before, after := make(map[string]jsontext.Value), make(map[string]jsontext.Value)
		for _, p := range body.Patches {
			name := p.steps()[0]
			if old, ok := state[name]; ok && before[name] == nil && after[name] == nil {
				before[name] = old
			}
			if err := p.apply(state); err != nil {
				return nil, err
			}
			if v, ok := state[name]; ok {
				after[name] = v
			} else {
				delete(after, name)
			}
		}
		text, err := json.Marshal(state, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		if len(text) > maxState {
			return nil, refuse(http.StatusRequestEntityTooLarge, "too_large", "the state would have %d bytes: at most %d are kept; put large data elsewhere and refer to it", len(text), maxState)
		}
		doc.State = text
		return &event{kind: "state_patched", payload: members("patches", body.Patches, "old_state", before, "new_state", after)}, nil
	})
}

// steps are the members that a path leads through: those of a JSON pointer, or
// else the one name that it is.
func (p patch) steps() []string {
	pointer, ok := strings.CutPrefix(p.Path, "/")
	if !ok {
		return []string{p.Path}
	}
	steps := strings.Split(pointer, "/")
	for i, s := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return steps
}

const maxSteps = 32

func (p patch) apply(state map[string]jsontext.Value) error {
	remove := false
	switch p.Op {
	case "set", "add", "replace":
		if p.Value == nil {
			return invalid("patches", "%s needs a value", p.Op)
		}
	case "remove", "delete", "unset":
		remove = true
	default:
		return invalid("patches", "op: one of set, add, replace, remove")
	}
	steps := p.steps()
	if len(steps) > maxSteps {
		return invalid("patches", "path: at most %d steps", maxSteps)
	}
	return descend(state, steps, p.Value, remove)
}

func descend(at map[string]jsontext.Value, steps []string, value jsontext.Value, remove bool) error {
	name := steps[0]
	if len(steps) == 1 {
		if remove {
			delete(at, name)
		} else {
			at[name] = value
		}
		return nil
	}
	inner := make(map[string]jsontext.Value)
	if v, ok := at[name]; ok && v.Kind() != 'n' {
		if v.Kind() != '{' {
			return invalid("patches", "path: leads through a value that is no object")
		}
		if err := json.Unmarshal(v, &inner); err != nil {
			return err
		}
	} else if remove {
		return nil
	}
	if err := descend(inner, steps[1:], value, remove); err != nil {
		return err
	}
	text, err := json.Marshal(inner, json.Deterministic(true))
	at[name] = text
	return err
}

// changeIntent lets change have the next version of the intent's object, if
// If-Match names the present one. change returns the event to log, or nil where
// nothing changes.
func (e *Engine) changeIntent(c *call, change func(*tx, *intent, *Intent) (*event, error)) (int, any, error) {
	version, err := c.ifMatch(http.StatusBadRequest)
	if err != nil {
		return 0, nil, err
	}
	var doc Intent
	err = e.writeIntent(c, c.arg(0), levelWrite, func(t *tx, in *intent) error {
		if in.doc.Version != version {
			return versionConflict(in.doc.Version)
		}
		doc = in.doc
		ev, err := change(t, in, &doc)
		if err != nil || ev == nil {
			return err
		}
		doc.Version++
		doc.UpdatedAt = t.now
		if err := t.saveIntent(in, doc, in.access); err != nil {
			return err
		}
		t.apply(func() { in.doc = doc })
		ev.actor = c.who.Agent
		if _, err := t.log(in, *ev); err != nil {
			return err
		}
		if in.terminal() {
			return t.closeAll(in)
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, doc, nil
}

func versionConflict(current int64) *Error {
	return conflict("version_conflict", "the version is %s by now: read it again and repeat the change", strconv.FormatInt(current, 10)).with("current_version", current)
}
