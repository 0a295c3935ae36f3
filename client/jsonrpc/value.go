package jsonrpc

import (
	"encoding"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/wire"
)

// Value is the text of one JSON value, delimited and not validated. Its methods
// validate what they read; null leaves dst as it is.
type Value []byte

func (v Value) ReadString(dst *string) error {
	s, err := v.chars()
	if s != nil {
		*dst = string(s)
	}
	return err
}

func (v Value) ReadText(dst encoding.TextUnmarshaler) error {
	s, err := v.chars()
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

// chars returns a string's text, nil for null.
func (v Value) chars() ([]byte, error) {
	switch {
	case v[0] == 'n':
		return nil, nil
	case v[0] != '"':
		return nil, errors.New("expected a string")
	case plain(v):
		return v[1 : len(v)-1], nil
	}
	s, err := jsontext.AppendUnquote([]byte{}, v)
	if err != nil {
		return nil, errors.New("not a well-formed string")
	}
	return s, nil
}

func (v Value) ReadUint(dst *uint64) error {
	if v[0] == 'n' {
		return nil
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		return errors.New("expected a whole number, 0 or more")
	}
	*dst = n
	return nil
}

// payload keeps the text of an object, which it aliases.
func (v Value) ReadPayload(dst *wire.Payload) error {
	switch v[0] {
	case '{':
		*dst = wire.Payload(v)
		return nil
	case 'n':
		*dst = nil
		return nil
	}
	return errors.New("expected a JSON object")
}

// other reads what has no method of its own.
func (v Value) ReadAny(dst any) error {
	if err := json.Unmarshal(v, dst); err != nil {
		return errors.New(problem(err))
	}
	return nil
}

// problem is the JSON library's error without its preamble.
func problem(err error) string {
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
