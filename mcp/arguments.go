package mcp

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// fromText reads arguments that a model has written as text, as some do: "2" for 2, and "[…]" for a list.
// It does so only where the argument cannot be text, and for data, which then is a JSON object or list.
// A list of texts may also be one text.
var fromText = json.JoinUnmarshalers(
	unmarshalText[bool]("tf"), unmarshalText[int]("0"), unmarshalText[float64]("0"), unmarshalText[jsontext.Value]("{["),
	unmarshalText[[]string]("["),
)

// unmarshalText reads a text that is JSON of one of these forms as what is written in it.
func unmarshalText[T any](forms string) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *T) error {
		if dec.PeekKind() != '"' {
			return errors.ErrUnsupported
		}
		quoted, err := dec.ReadValue()
		if err != nil {
			return err
		}
		unquoted, err := jsontext.AppendUnquote(nil, quoted)
		if err != nil {
			return err
		}
		text := jsontext.Value(unquoted)
		if text.IsValid() && strings.ContainsRune(forms, rune(text.Kind())) && json.Unmarshal(text, v) == nil {
			return nil
		}
		switch v := any(v).(type) {
		case *[]string:
			*v = []string{string(text)}
			return nil
		case *jsontext.Value:
			*v = quoted.Clone()
			return nil
		}
		return &json.SemanticError{JSONKind: '"'}
	})
}
