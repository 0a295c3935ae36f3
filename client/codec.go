package client

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// The types that every message passes through write and read themselves, so that
// payloads are spliced and nothing is looked up by reflection. A test holds them
// to what their tags say.
type (
	writer interface{ appendTo(*members) }
	reader interface {
		member(name []byte, v value) error // errUnknown: no such member
	}
)

var errUnknown = errors.New("unknown: see the method's params")

// appendValue appends v as JSON text without line breaks.
func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "{}"...), nil
	case wire.Payload:
		return appendText(b, v.Object()), nil
	case jsontext.Value:
		return appendText(b, v), nil
	case writer:
		m := members{b: b, start: len(b)}
		v.appendTo(&m)
		return m.close()
	}
	text, err := json.Marshal(v, jsontext.PreserveRawStrings(true))
	return append(b, text...), err
}

// appendText splices JSON text: the line breaks that it may hold stand between
// its tokens, where a space does as well.
func appendText(b, text []byte) []byte {
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

// readValue reads JSON text into v; o is the text's scan where it is an object.
// Payloads, and a jsontext.Value, are kept as text that is not validated and
// aliases text. With strict, unknown members are an error.
func readValue(text []byte, o *object, v any, strict bool) error {
	switch v := v.(type) {
	case nil:
		return nil
	case *jsontext.Value:
		*v = text
		return nil
	case *wire.Payload:
		return value(text).payload(v)
	case reader:
		if text[0] != '{' {
			return errors.New("expected an object")
		}
		return o.read(v, strict)
	}
	return json.Unmarshal(text, v, json.RejectUnknownMembers(strict))
}

// read reads the members into v.
func (o *object) read(v reader, strict bool) error {
	for i := range o.n {
		name, text := o.member(i)
		if err := v.member(name, text); err != nil && (strict || err != errUnknown) {
			return fmt.Errorf("%.64s: %w", name, err)
		}
	}
	return o.err
}

// members writes one JSON object.
type members struct {
	b     []byte
	start int
	err   error
}

// add begins a member.
func (m *members) add(name string) {
	m.b = append(m.b, `,"`...)
	m.b = append(m.b, name...)
	m.b = append(m.b, `":`...)
}

func (m *members) close() ([]byte, error) {
	if len(m.b) == m.start {
		m.b = append(m.b, '{')
	}
	m.b[m.start] = '{' // for the first comma
	return append(m.b, '}'), m.err
}

func (m *members) str(name, s string) {
	m.add(name)
	var err error
	if m.b, err = jsontext.AppendQuote(m.b, s); err != nil && m.err == nil {
		m.err = fmt.Errorf("%s: not valid UTF-8", name)
	}
}

func (m *members) optStr(name, s string) {
	if s != "" {
		m.str(name, s)
	}
}

func (m *members) uint(name string, n uint64) {
	m.add(name)
	m.b = strconv.AppendUint(m.b, n, 10)
}

func (m *members) optUint(name string, n uint64) {
	if n != 0 {
		m.uint(name, n)
	}
}

func (m *members) id(name string, id wire.MessageID) {
	m.add(name)
	m.b = append(m.b, '"')
	m.b, _ = id.AppendText(m.b)
	m.b = append(m.b, '"')
}

func (m *members) optID(name string, id wire.MessageID) {
	if !id.IsZero() {
		m.id(name, id)
	}
}

func (m *members) ref(name string, ref *wire.MessageID) {
	if ref != nil {
		m.id(name, *ref)
		return
	}
	m.add(name)
	m.b = append(m.b, "null"...)
}

func (m *members) peer(name string, id identity.ID) {
	m.add(name)
	m.b = append(m.b, '"')
	m.b = hex.AppendEncode(m.b, id[:])
	m.b = append(m.b, '"')
}

func (m *members) payload(p wire.Payload) {
	m.b = slices.Grow(m.b, len(p)+64)
	m.add("payload")
	m.b = appendText(m.b, p.Object())
}

func (m *members) other(name string, v any) {
	m.add(name)
	var err error
	if m.b, err = appendValue(m.b, v); err != nil && m.err == nil {
		m.err = fmt.Errorf("%s: %w", name, err)
	}
}
