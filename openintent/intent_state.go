package openintent

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// StatePatch is a change of an intent's state: patches, then a state whose members are set.
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
	maxState   = 256 << 10 // bytes of an intent's state
	MaxIntent  = 1 << 20   // and of all of it, about: the rest was in the body that made it
	maxPatches = 256 << 10 // bytes of the patches of one request: what does not fit the state need not be sent
	maxSteps   = 32        // members that a path leads through
)

// check makes patches of the state that is said, and checks what needs no intent.
func (s *StatePatch) check() error {
	if s.State != nil {
		var state map[string]jsontext.Value
		if err := json.Unmarshal(s.State, &state); err != nil || state == nil {
			return Invalid("state", "an object is needed")
		}
		for _, name := range slices.Sorted(maps.Keys(state)) {
			s.Patches = append(s.Patches, Patch{Op: "set", Path: name, Value: state[name]})
		}
	}
	if len(s.Patches) > maxEntries {
		return Invalid("patches", "at most %d", maxEntries)
	}
	size := 0
	for _, p := range s.Patches {
		size += len(p.Path) + len(p.Value)
	}
	if size > maxPatches {
		return Refuse("too_large", "patches: %d bytes, at most %d are taken at once: make several changes, or put large data elsewhere and refer to it", size, maxPatches)
	}
	return nil
}

// PatchState changes the state of the intent, if it has the version that version returns. Its
// error is returned once s has been checked.
func (e *Engine) PatchState(c *Call, id string, version func() (int64, error), s *StatePatch) (jsontext.Value, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return e.changeIntent(c, id, version, func(doc *Intent) (*event, error) {
		if terminal(doc.Status) {
			return nil, Refuse("intent_terminal", "the intent is %s: its state is final", doc.Status)
		}
		if len(s.Patches) == 0 {
			return nil, nil
		}
		return s.apply(doc)
	})
}

// apply makes the patches in the intent's state and returns the event that tells of them.
func (s *StatePatch) apply(doc *Intent) (*event, error) {
	state, err := newTree(doc.State)
	if err != nil {
		return nil, err
	}
	// Agents are told what was touched, as it was and as it is.
	before, after := make(map[string]jsontext.Value), make(map[string]jsontext.Value)
	for _, p := range s.Patches {
		name := p.steps()[0]
		if _, touched := after[name]; !touched {
			after[name] = nil
			if old := state.members[name]; old != nil {
				before[name] = old.text
			}
		}
		if err := p.apply(state); err != nil {
			return nil, err
		}
	}
	doc.State = state.append(nil)
	if len(doc.State) > maxState {
		return nil, Refuse("too_large", "the state would have %d bytes: at most %d are kept; put large data elsewhere and refer to it", len(doc.State), maxState)
	}
	for name := range after {
		if v := state.members[name]; v != nil {
			after[name] = v.append(nil)
		} else {
			delete(after, name)
		}
	}
	return newEvent("state_patched", Members("patches", s.Patches, "old_state", before, "new_state", after))
}

// steps are the members that a path leads through: those of a JSON pointer, or
// else the one name that it is.
func (p Patch) steps() []string {
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

// apply makes the patch in state.
func (p Patch) apply(state *tree) error {
	remove := false
	switch p.Op {
	case "set", "add", "replace":
		if p.Value == nil {
			return Invalid("patches", "%s needs a value", p.Op)
		}
	case "remove", "delete", "unset":
		remove = true
	default:
		return Invalid("patches", "op: one of set, add, replace, remove")
	}
	steps := p.steps()
	if len(steps) > maxSteps {
		return Invalid("patches", "path: at most %d steps", maxSteps)
	}
	at := state
	for _, name := range steps[:len(steps)-1] {
		inner := at.members[name]
		if inner == nil || inner.members == nil && inner.text.Kind() == 'n' {
			if remove {
				return nil
			}
			inner = &tree{members: make(map[string]*tree)}
			at.members[name] = inner
		}
		if err := inner.open(state); err != nil {
			return err
		}
		at = inner
	}
	name := steps[len(steps)-1]
	if remove {
		delete(at.members, name)
	} else {
		at.members[name] = &tree{text: p.Value}
	}
	return nil
}
