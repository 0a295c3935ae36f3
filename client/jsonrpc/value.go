package jsonrpc

import (
	"encoding"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/wire"
)

// Value is the text of one JSON value, delimited and not validated. Its methods validate
// what they read. A null leaves dst as it is.
type Value []byte

func (v Value) ReadString(dst *string) error {
	s, err := v.unquoteText()
	if s != nil {
		*dst = string(s)
	}
	return err
}

func (v Value) ReadText(dst encoding.TextUnmarshaler) error {
	s, err := v.unquoteText()
	if s == nil {
		return err
	}
	return dst.UnmarshalText(s)
}

func (v Value) ReadNullableMessageID(dst **wire.MessageID) error {
	if v[0] == 'n' {
		return nil
	}
	*dst = new(wire.MessageID)
	return v.ReadText(*dst)
}

// unquoteText returns the text of a string, or nil for null.
func (v Value) unquoteText() ([]byte, error) {
	switch {
	case v[0] == 'n':
		return nil, nil
	case v[0] != '"':
		return nil, ownwords.New("expected a string")
	case isPlainString(v):
		return v[1 : len(v)-1], nil
	}
	s, err := jsontext.AppendUnquote([]byte{}, v)
	if err != nil {
		return nil, ownwords.New("not a well-formed string")
	}
	return s, nil
}

func (v Value) ReadUint(dst *uint64) error {
	if v[0] == 'n' {
		return nil
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		return ownwords.New("expected a whole number, 0 or more")
	}
	*dst = n
	return nil
}

// ReadPayload sets dst to the text of an object, which dst aliases.
func (v Value) ReadPayload(dst *wire.Payload) error {
	switch v[0] {
	case '{':
		*dst = wire.Payload(v)
		return nil
	case 'n':
		*dst = nil
		return nil
	}
	return ownwords.New("expected a JSON object")
}

// ReadAny reads a value by reflection, for types that have no method of their own.
func (v Value) ReadAny(dst any) error {
	if err := json.Unmarshal(v, dst); err != nil {
		return ownwords.New(trimJSONPreamble(err))
	}
	return nil
}

// trimJSONPreamble returns the text of err without the JSON library's preamble.
func trimJSONPreamble(err error) string {
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err.Error()
	}
	where := ""
	if semantic.JSONPointer != "" {
		where = string(semantic.JSONPointer[1:]) + ": "
	}
	if semantic.Err != nil {
		return where + semantic.Err.Error()
	}
	return where + fmt.Sprintf("%s is not what is expected there", semantic.JSONKind)
}
