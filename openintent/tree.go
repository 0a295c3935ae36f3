package openintent

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// tree is a JSON value that patches lead through. Each object is decoded once, when
// the first patch goes into it, and encoded once, by append.
type tree struct {
	text    jsontext.Value   // the value as it was read or set; nil where patches have made it
	members map[string]*tree // the members of an object that a patch has gone into, otherwise nil
	work    int              // of the root: bytes that were decoded
}

// maxWork bounds the bytes that the patches of one request make the host decode: the
// whole state, once for each step of the longest path. What patches set counts too if
// others then lead into it.
const maxWork = maxSteps * maxState

// newTree decodes the outermost object of text.
func newTree(text jsontext.Value) (*tree, error) {
	root := &tree{text: text}
	return root, root.open(root)
}

// open decodes the members of t, an object, unless that is done. It refuses what is no
// object, and what would make the work for root too much.
func (t *tree) open(root *tree) error {
	if t.members != nil {
		return nil
	}
	if t.text.Kind() != '{' {
		return Invalid("patches", "path: leads through a value that is no object")
	}
	if root.work += len(t.text); root.work > maxWork {
		return Refuse("too_large", "patches: their paths lead through more than %d bytes: make several changes, or keep large values less deep in the state", maxWork)
	}
	var texts map[string]jsontext.Value
	if err := json.Unmarshal(t.text, &texts); err != nil {
		return err
	}
	t.members = make(map[string]*tree, len(texts))
	for name, text := range texts {
		t.members[name] = &tree{text: text}
	}
	return nil
}

// append appends the value as JSON.
func (t *tree) append(b []byte) []byte {
	if t.members == nil {
		return append(b, t.text...)
	}
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(t.members)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(chain.AppendString(b, name), ':')
		b = t.members[name].append(b)
	}
	return append(b, '}')
}
