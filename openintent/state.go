package openintent

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

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
