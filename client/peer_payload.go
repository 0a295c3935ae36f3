package client

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// payloadField is a field of a payload, as its sender wrote it.
type payloadField struct {
	name  string
	value jsontext.Value
}

// formatPeerPayload returns a payload as text: texts are decoded, all else is the peer's JSON. A
// payload that is not valid for its kind is its JSON text as a whole. The order is that of the table of
// kinds, then that of the payload. A deadline is left out if there are words: it is for the daemons, and
// the program that shows the message shows how long it can still be answered.
func formatPeerPayload(kind string, p wire.Payload) string {
	k, known := kinds.FindKind(kind)
	if !known || k.CheckPayload(p) != nil {
		return string(p.Object())
	}
	fields, err := readPayloadFields(p)
	if err != nil || len(fields) == 0 {
		return string(p.Object())
	}
	var head, words, rest strings.Builder
	for _, row := range k.Fields {
		if i := slices.IndexFunc(fields, func(f payloadField) bool { return f.name == row.Name }); i >= 0 && row.Has(kinds.Head) {
			fields[i].write(&head)
			fields = slices.Delete(fields, i, i+1)
		}
	}
	spoken := k.FindWords()
	for _, f := range fields {
		switch {
		case spoken == "":
			f.write(&rest)
		case f.name == spoken:
			words.WriteString(f.text() + "\n")
		case f.name != "deadline_ms":
			f.write(&rest)
		}
	}
	var parts []string
	for _, b := range []*strings.Builder{&head, &words, &rest} {
		if b.Len() > 0 {
			parts = append(parts, strings.TrimSuffix(b.String(), "\n"))
		}
	}
	separator := "\n\n"
	if spoken == "" {
		separator = "\n"
	}
	return strings.Join(parts, separator)
}

// maxBegun bounds the text in which the beginning is looked for, in bytes: much of a text may be
// characters that are not shown.
const maxBegun = 16 << 10

// BeginPeerText returns the beginning of what a peer's message says, as [ClipText] does, in one line
// that is fit for a terminal.
func BeginPeerText(kind string, p wire.Payload) string {
	text := formatPeerPayload(kind, p)
	return ClipText(Line(text[:min(len(text), maxBegun)]), MaxBeginning)
}

// FormatPeerText returns what a peer's message says, on lines that are fit for a terminal.
func FormatPeerText(kind string, p wire.Payload) string {
	return Text(formatPeerPayload(kind, p))
}

// readPayloadFields returns the fields of a payload in its order, without those that are null. With
// an error it returns those before it.
func readPayloadFields(p wire.Payload) ([]payloadField, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(p.Object()))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var fields []payloadField
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return fields, err
		}
		f := payloadField{name: name.String()}
		value, err := dec.ReadValue()
		if err != nil {
			return fields, err
		}
		if value.Kind() != 'n' {
			f.value = value.Clone()
			fields = append(fields, f)
		}
	}
	_, err := dec.ReadToken()
	return fields, err
}

// text returns a text decoded, and any other value as it was written.
func (f *payloadField) text() string {
	if f.value.Kind() == '"' {
		if s, err := jsontext.AppendUnquote(nil, f.value); err == nil {
			return string(s)
		}
	}
	return string(f.value)
}

// write writes the field's name and value, a value of several lines below the name.
func (f *payloadField) write(b *strings.Builder) {
	value := f.text()
	separator := " "
	if strings.Contains(value, "\n") {
		separator = "\n"
	}
	b.WriteString(f.name + ":" + separator + value + "\n")
}
