package traffic

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// beginText returns the beginning of what a payload says, which may end anywhere: on one line, fit for a
// terminal, and at most [client.MaxTrafficText] bytes long. A payload of no kind is plain text.
func beginText(kind string, payload []byte) string {
	payload = payload[:min(len(payload), maxHead)]
	if kind == "" {
		return ClipLine(string(payload))
	}
	row, known := kinds.FindKind(kind)
	if !known || len(payload) == 0 {
		return ""
	}
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	dec := &d.Decoder
	d.text = *bytes.NewBuffer(payload)
	dec.Reset(&d.text, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return ""
	}
	said := make([]string, len(row.Fields))
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			break
		}
		i := slices.IndexFunc(row.Fields, func(f kinds.Field) bool {
			return f.Has(kinds.Line) && string(name[1:len(name)-1]) == f.Name
		})
		value, err := dec.ReadValue()
		if err != nil { // the payload was cut here
			value = bytes.TrimLeft(payload[dec.InputOffset():], ": \t\r\n")
		}
		if i >= 0 {
			said[i] = decodeText(value)
		}
		if err != nil {
			break
		}
	}
	return ClipLine(strings.Join(slices.DeleteFunc(said, func(text string) bool { return text == "" }), " "))
}

// decoder decodes a text.
type decoder struct {
	jsontext.Decoder
	text bytes.Buffer
}

// decoders has decoders that nobody uses.
var decoders = sync.Pool{New: func() any { return new(decoder) }}

// decodeText returns a text decoded, also one whose end was cut off, nothing for null, and any other
// value as it was written.
func decodeText(value []byte) string {
	switch {
	case string(value) == "null":
		return ""
	case len(value) == 0 || value[0] != '"':
		return string(value)
	}
	var room [maxHead]byte
	if s, err := jsontext.AppendUnquote(room[:0], value); err == nil {
		return string(s)
	}
	const longestEscape = len(`\ud83d\ude00`)
	for cut := 0; cut <= longestEscape && cut < len(value); cut++ {
		if s, err := jsontext.AppendUnquote(nil, append(slices.Clip(value[:len(value)-cut]), '"')); err == nil {
			return string(s)
		}
	}
	return ""
}

// ClipLine returns the beginning of a text on one line, fit for a terminal and at most
// [client.MaxTrafficText] bytes long, with an ellipsis if there is more.
func ClipLine(text string) string {
	return client.ClipText(strings.TrimSpace(client.Line(text)), client.MaxTrafficText)
}
