package object

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// StatePatch asks for a change of an intent's state: patches, then members that are set.
type StatePatch struct {
	Patches []Patch        `json:"patches,omitzero"`
	State   jsontext.Value `json:"state,omitzero"`
}

// Patch is one step of a change of an intent's state.
type Patch struct {
	Op    string         `json:"op"`
	Path  string         `json:"path"`
	Value jsontext.Value `json:"value,omitzero"`
}

const (
	MaxState  = 256 << 10 // bytes of an intent's state
	MaxIntent = 1 << 20   // and of all of it, about: the rest was in the body that made it
	MaxSteps  = 32        // members that a path leads through
)

// CheckPatches makes patches of the members that are set, and checks all as far as that needs no
// intent.
func (s *StatePatch) CheckPatches() error {
	if s.State != nil {
		var state map[string]jsontext.Value
		if err := json.Unmarshal(s.State, &state); err != nil || state == nil {
			return NewFieldError("state", "an object is needed")
		}
		for _, name := range slices.Sorted(maps.Keys(state)) {
			s.Patches = append(s.Patches, Patch{Op: "set", Path: name, Value: state[name]})
		}
	}
	if len(s.Patches) > MaxEntries {
		return NewFieldError("patches", "at most %d", MaxEntries)
	}
	return nil
}

// ApplyTo makes the patches in the intent's state and returns the payload of the event about them.
func (s *StatePatch) ApplyTo(doc *Intent) (event jsontext.Value, err error) {
	state, err := newStateTree(doc.State)
	if err != nil {
		return nil, err
	}
	// The event has the members that were touched, before and after.
	before, after := make(map[string]jsontext.Value), make(map[string]jsontext.Value)
	for _, p := range s.Patches {
		name := p.pathSteps()[0]
		if _, touched := after[name]; !touched {
			after[name] = nil
			if old := state.members[name]; old != nil {
				before[name] = old.text
			}
		}
		if err := p.applyTo(state); err != nil {
			return nil, err
		}
	}
	doc.State = state.appendJSON(nil)
	if len(doc.State) > MaxState {
		return nil, NewError("too_large", "the state would have %d bytes: at most %d are kept; put large data elsewhere and refer to it", len(doc.State), MaxState)
	}
	for name := range after {
		if v := state.members[name]; v != nil {
			after[name] = v.appendJSON(nil)
		} else {
			delete(after, name)
		}
	}
	return EncodeJSONObject("patches", s.Patches, "old_state", before, "new_state", after), nil
}

// pathSteps returns the members that a path leads through: those of a JSON pointer, or else one
// member of that name.
func (p Patch) pathSteps() []string {
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

// applyTo makes the patch in state.
func (p Patch) applyTo(state *stateTree) error {
	remove := false
	switch p.Op {
	case "set", "add", "replace":
		if p.Value == nil {
			return NewFieldError("patches", "%s needs a value", p.Op)
		}
	case "remove", "delete", "unset":
		remove = true
	default:
		return NewFieldError("patches", "op: one of set, add, replace, remove")
	}
	steps := p.pathSteps()
	if len(steps) > MaxSteps {
		return NewFieldError("patches", "path: at most %d steps", MaxSteps)
	}
	at := state
	for _, name := range steps[:len(steps)-1] {
		inner := at.members[name]
		if inner == nil || inner.members == nil && inner.text.Kind() == 'n' {
			if remove {
				return nil
			}
			inner = &stateTree{members: make(map[string]*stateTree)}
			at.members[name] = inner
		}
		if err := inner.decodeMembers(state); err != nil {
			return err
		}
		at = inner
	}
	name := steps[len(steps)-1]
	if remove {
		delete(at.members, name)
	} else {
		at.members[name] = &stateTree{text: p.Value}
	}
	return nil
}
