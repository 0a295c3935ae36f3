package object

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// JSON holds an answer in parts, in their order. Long parts share the memory of the messages
// and events that they are from.
type JSON [][]byte

// Len returns how many bytes the parts have together.
func (p JSON) Len() (n int) {
	for _, b := range p {
		n += len(b)
	}
	return n
}

// AppendMember appends a member of an array, after a comma unless it is the first.
func (p JSON) AppendMember(first bool, member ...[]byte) JSON {
	if !first {
		p = append(p, comma)
	}
	return append(p, member...)
}

var comma = []byte{','}

// EncodeJSON returns v as JSON, in which the members of maps are sorted. It panics if v cannot be
// encoded: callers encode only types of their own.
func EncodeJSON(v any) jsontext.Value {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return b
}

// EncodeJSONText returns v as JSON, for a column of the store.
func EncodeJSONText(v any) string { return string(EncodeJSON(v)) }

// EncodeJSONObject returns a JSON object of pairs of names and values, in their order.
func EncodeJSONObject(pairs ...any) jsontext.Value {
	b := []byte{'{'}
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, pairs[i].(string))
		b = append(append(b, ':'), EncodeJSON(pairs[i+1])...)
	}
	return append(b, '}')
}

// EncodeJSONObjectWithHome is [EncodeJSONObject] with the member home, unless home is "", which
// is here.
func EncodeJSONObjectWithHome(home string, pairs ...any) jsontext.Value {
	if home != "" {
		pairs = append(pairs, "home", home)
	}
	return EncodeJSONObject(pairs...)
}

// NormalizeJSONObject refuses a v that is no object, and removes its white space. No value at all
// becomes an empty object.
func NormalizeJSONObject(field string, v *jsontext.Value) error {
	if *v == nil || v.Kind() == 'n' {
		*v = jsontext.Value("{}")
		return nil
	}
	if v.Kind() != '{' || v.Compact() != nil {
		return NewFieldError(field, "an object is needed")
	}
	return nil
}

// MaxDepth bounds how deep a body nests. The stored form nests deeper, by the steps of a
// patch at most; SQLite reads at most 1,000 levels when a daemon starts.
const MaxDepth = 256

// Nullable is a string that is written as null in JSON if it is empty.
type Nullable string

func (s Nullable) MarshalJSON() ([]byte, error) {
	return chain.AppendJSONStringOrNull(nil, string(s)), nil
}
