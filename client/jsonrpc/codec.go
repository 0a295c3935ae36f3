package jsonrpc

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/wire"
)

// The types of frequent messages write and read their members themselves. That splices
// payloads and needs no reflection. A test compares them with what their tags say.
type (
	// memberWriter writes its members.
	memberWriter interface{ WriteMembers(*ObjectWriter) }
	// MemberReader reads one member. The error is ErrUnknownMember if it has none of that name.
	MemberReader interface {
		ReadMember(name []byte, v Value) error
	}
)

// ErrUnknownMember says that an object has no member of that name.
var ErrUnknownMember = ownwords.New("unknown: see the method's params")

// AppendValue appends v as JSON text without line breaks.
func AppendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "{}"...), nil
	case wire.Payload:
		return appendOnOneLine(b, v.Object()), nil
	case jsontext.Value:
		return appendOnOneLine(b, v), nil
	case memberWriter:
		m := ObjectWriter{b: b, start: len(b)}
		v.WriteMembers(&m)
		return m.closeObject()
	}
	text, err := json.Marshal(v, jsontext.PreserveRawStrings(true))
	return append(b, text...), err
}

// appendOnOneLine appends JSON text. Its line breaks are between tokens, so spaces
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

// ReadValue reads JSON text into v. Payloads, and a jsontext.Value, are kept as text that
// is not validated and aliases text. With strict, unknown members are an error.
func ReadValue(text []byte, v any, strict bool) error {
	var o scannedObject
	text = text[jsonscan.SkipSpace(text, 0):]
	if len(text) == 0 {
		return errSyntax
	}
	if _, ok := v.(MemberReader); ok && text[0] == '{' && o.scan(text, 0, nil) < 0 {
		return errSyntax
	}
	return readScannedValue(text, &o, v, strict)
}

// readScannedValue is [ReadValue] for text that is scanned already: o is its scan if it is an
// object.
func readScannedValue(text []byte, o *scannedObject, v any, strict bool) error {
	switch v := v.(type) {
	case nil:
		return nil
	case *jsontext.Value:
		*v = text
		return nil
	case *wire.Payload:
		return Value(text).ReadPayload(v)
	case MemberReader:
		if text[0] != '{' {
			return ownwords.New("expected an object")
		}
		return o.readMembers(v, strict)
	}
	return json.Unmarshal(text, v, json.RejectUnknownMembers(strict))
}

// readMembers reads the members into v. With strict, an unknown member is an error.
func (o *scannedObject) readMembers(v MemberReader, strict bool) error {
	for i := range o.count {
		name, text := o.memberAt(i)
		if err := v.ReadMember(name, text); err != nil && (strict || err != ErrUnknownMember) {
			return ownwords.Errorf("%.64s: %w", name, err)
		}
	}
	return o.err
}

// ObjectWriter writes the members of one JSON object. Each method writes one member of
// that name; the Optional ones write nothing for a zero value.
type ObjectWriter struct {
	b     []byte
	start int
	err   error

	splices   bool   // a large payload is not copied
	spliced   []byte // which one; nil: none
	splicedAt int    // where in b it belongs
}

// splicedBytes is the size of a payload from which a write from three places costs less than a copy
// into a buffer. It is over maxBatch: a line with such a payload shares no batch.
const splicedBytes = maxBatch + 1<<10

// beginMember begins a member.
func (m *ObjectWriter) beginMember(name string) {
	m.b = append(m.b, `,"`...)
	m.b = append(m.b, name...)
	m.b = append(m.b, `":`...)
}

func (m *ObjectWriter) closeObject() ([]byte, error) {
	if len(m.b) == m.start {
		m.b = append(m.b, '{')
	}
	m.b[m.start] = '{' // for the first comma
	return append(m.b, '}'), m.err
}

func (m *ObjectWriter) WriteString(name, s string) {
	m.beginMember(name)
	var err error
	if m.b, err = jsontext.AppendQuote(m.b, s); err != nil && m.err == nil {
		m.err = ownwords.Errorf("%s: not valid UTF-8", name)
	}
}

func (m *ObjectWriter) WriteOptionalString(name, s string) {
	if s != "" {
		m.WriteString(name, s)
	}
}

func (m *ObjectWriter) WriteUint(name string, n uint64) {
	m.beginMember(name)
	m.b = strconv.AppendUint(m.b, n, 10)
}

func (m *ObjectWriter) WriteOptionalUint(name string, n uint64) {
	if n != 0 {
		m.WriteUint(name, n)
	}
}

func (m *ObjectWriter) WriteMessageID(name string, id wire.MessageID) {
	m.beginMember(name)
	m.b = append(m.b, '"')
	m.b, _ = id.AppendText(m.b)
	m.b = append(m.b, '"')
}

func (m *ObjectWriter) WriteOptionalMessageID(name string, id wire.MessageID) {
	if !id.IsZero() {
		m.WriteMessageID(name, id)
	}
}

func (m *ObjectWriter) WriteNullableMessageID(name string, ref *wire.MessageID) {
	if ref != nil {
		m.WriteMessageID(name, *ref)
		return
	}
	m.beginMember(name)
	m.b = append(m.b, "null"...)
}

func (m *ObjectWriter) WritePeerID(name string, id identity.ID) {
	m.beginMember(name)
	m.b = append(m.b, '"')
	m.b = hex.AppendEncode(m.b, id[:])
	m.b = append(m.b, '"')
}

func (m *ObjectWriter) WritePayload(p wire.Payload) {
	if len(p) < splicedBytes { // Grow clears what it makes
		m.b = slices.Grow(m.b, len(p)+64)
	}
	m.beginMember("payload")
	if m.splices && len(p) >= splicedBytes && m.spliced == nil && bytes.IndexByte(p, '\n') < 0 && bytes.IndexByte(p, '\r') < 0 {
		m.spliced, m.splicedAt = p, len(m.b)
		return
	}
	m.b = appendOnOneLine(m.b, p.Object())
}

func (m *ObjectWriter) WriteAny(name string, v any) {
	m.beginMember(name)
	var err error
	if m.b, err = AppendValue(m.b, v); err != nil && m.err == nil {
		m.err = ownwords.Errorf("%s: not valid UTF-8 or JSON", name)
	}
}
