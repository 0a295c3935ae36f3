package object

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// stateTree is a JSON value that patches lead through. Each object is decoded once, when the
// first patch leads into it, and encoded once, by appendJSON.
type stateTree struct {
	text    jsontext.Value        // the value as it was read or set; nil if patches have made it
	members map[string]*stateTree // the members of an object that a patch has gone into, otherwise nil
	work    int                   // of the root: bytes that were decoded
}

// maxWork bounds the bytes that the patches of one request make the host decode: the whole state,
// once for each step of the longest path. Values that patches set are included if later patches lead
// into them.
const maxWork = MaxSteps * MaxState

// newStateTree decodes the outermost object of text.
func newStateTree(text jsontext.Value) (*stateTree, error) {
	root := &stateTree{text: text}
	return root, root.decodeMembers(root)
}

// decodeMembers decodes the members of t, unless that is done. It refuses a t that is no object,
// and work for root beyond maxWork.
func (t *stateTree) decodeMembers(root *stateTree) error {
	if t.members != nil {
		return nil
	}
	if t.text.Kind() != '{' {
		return NewFieldError("patches", "path: leads through a value that is no object")
	}
	if root.work += len(t.text); root.work > maxWork {
		return NewError("too_large", "patches: their paths lead through more than %d bytes: make several changes, or keep large values less deep in the state", maxWork)
	}
	var texts map[string]jsontext.Value
	if err := json.Unmarshal(t.text, &texts); err != nil {
		return err
	}
	t.members = make(map[string]*stateTree, len(texts))
	for name, text := range texts {
		t.members[name] = &stateTree{text: text}
	}
	return nil
}

// appendJSON appends the value as JSON.
func (t *stateTree) appendJSON(b []byte) []byte {
	if t.members == nil {
		return append(b, t.text...)
	}
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(t.members)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(chain.AppendJSONString(b, name), ':')
		b = t.members[name].appendJSON(b)
	}
	return append(b, '}')
}
