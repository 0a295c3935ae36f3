package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/wire"
)

// PayloadCarrier is a pointer to a struct whose member payload crosses as its sender wrote it. The
// payload is delimited and not validated, since a parser needs many times longer for a large one.
type PayloadCarrier interface{ PayloadField() *wire.Payload }

// textRange is a part of a text. It is empty if the text has no such part.
type textRange struct{ from, to int }

// skipParams returns the index after the value that begins at text[at]. If the value is an object
// and its member payload is one too, payload is where in the value the latter is.
func skipParams(text []byte, at int) (end int, payload textRange) {
	end = jsonscan.Members(text, at, func(name []byte, value int) int {
		end := jsonscan.SkipValue(text, value)
		if end > 0 && text[value] == '{' && payload.to == 0 && string(name) == `"payload"` {
			payload = textRange{value - at, end - at}
		}
		return end
	})
	if end < 0 { // not an object, or one whose error [Request.ReadParams] returns
		return jsonscan.SkipValue(text, at), textRange{}
	}
	return end, payload
}

// appendValue appends v as JSON text without line breaks.
func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "{}"...), nil
	case wire.Payload:
		return appendOnOneLine(b, v.Object()), nil
	case jsontext.Value:
		return appendOnOneLine(b, v), nil
	case PayloadCarrier:
		if payload := *v.PayloadField(); len(payload) > 0 {
			return appendCarrier(b, v, payload)
		}
	}
	return appendMarshalled(b, v)
}

// appendCarrier appends v with its payload, which is copied.
func appendCarrier(b []byte, v PayloadCarrier, payload wire.Payload) ([]byte, error) {
	empty := reflect.New(reflect.TypeOf(v).Elem())
	empty.Elem().Set(reflect.ValueOf(v).Elem())
	rest := empty.Interface().(PayloadCarrier)
	*rest.PayloadField() = nil
	text, err := appendMarshalled(nil, rest)
	if err != nil {
		return b, err
	}
	_, at := skipParams(text, 0)
	b = slices.Grow(b, len(text)+len(payload))
	b = append(b, text[:at.from]...)
	b = appendOnOneLine(b, payload)
	return append(b, text[at.to:]...), nil
}

func appendMarshalled(b []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v, jsontext.PreserveRawStrings(true))
	return append(b, text...), err
}

// appendOnOneLine appends JSON text. Its line breaks stand between tokens, so spaces
// replace them.
func appendOnOneLine(b, text []byte) []byte {
	start := len(b)
	b = append(b, text...)
	for _, c := range [...]byte{'\n', '\r'} {
		for at := start; ; at++ {
			i := bytes.IndexByte(b[at:], c)
			if i < 0 {
				break
			}
			at += i
			b[at] = ' '
		}
	}
	return b
}

// readValue reads JSON text into v. payload is what [skipParams] returned for the text. A payload,
// or a jsontext.Value, is kept as text that aliases text. With strict, unknown members are an error.
func readValue(text []byte, payload textRange, v any, strict bool) error {
	switch v := v.(type) {
	case nil:
		return nil
	case *jsontext.Value:
		*v = text
		return nil
	case *wire.Payload:
		if text[0] == '{' {
			*v = text
			return nil
		}
	case PayloadCarrier:
		if payload.to > 0 {
			rest := slices.Concat(text[:payload.from], []byte("null"), text[payload.to:])
			if err := json.Unmarshal(rest, v, json.RejectUnknownMembers(strict)); err != nil {
				return err
			}
			*v.PayloadField() = text[payload.from:payload.to:payload.to]
			return nil
		}
	}
	return json.Unmarshal(text, v, json.RejectUnknownMembers(strict))
}

// describeReadError returns what is wrong with JSON text, in our own words.
func describeReadError(err error) string {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Sprintf("%.64q is given twice", syntactic.JSONPointer.LastToken())
		}
		return "not well-formed JSON"
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err.Error()
	}
	where := ""
	if semantic.JSONPointer != "" {
		where = fmt.Sprintf("%.64s: ", semantic.JSONPointer[1:])
	}
	isNumber := errors.Is(semantic.Err, strconv.ErrSyntax) || errors.Is(semantic.Err, strconv.ErrRange)
	switch {
	case errors.Is(semantic.Err, json.ErrUnknownName):
		return where + "unknown: see the method's params"
	case semantic.Err != nil && !isNumber:
		return where + strings.TrimPrefix(semantic.Err.Error(), where)
	}
	return where + "expected " + describeType(semantic.GoType)
}

// describeType returns which JSON is read into a type.
func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint64:
		return "a whole number, 0 or more"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "another value"
}
