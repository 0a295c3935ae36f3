package cli

import (
	"bytes"
	"sort"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// asResponse returns the answer to a query: the output if it is a response, else a response
// with the output as its summary.
func (o *commandOutput) asResponse() wire.Payload {
	if p, ok := o.asPayload(kinds.KindResponse); ok {
		return p
	}
	return o.fitText(func(text string, cut bool) wire.Payload {
		return kinds.Encode(&kinds.Response{Summary: text, Truncated: cut})
	})
}

// asResult returns the final report on a delegation: the output if it is one. Of a response it
// takes summary and data as outcome and data. Any other output becomes the outcome.
func (o *commandOutput) asResult() wire.Payload {
	if p, ok := o.asPayload(kinds.KindResult); ok {
		if r, err := kinds.Parse[kinds.Result](p); err == nil && r.Status != "partial" {
			return p
		}
	}
	if p, ok := o.asPayload(kinds.KindResponse); ok {
		if r, err := kinds.Parse[kinds.Response](p); err == nil {
			return kinds.Encode(&resultPayload{Status: "completed", Outcome: r.Summary, Data: r.Data, Truncated: r.Truncated})
		}
	}
	return o.fitText(func(text string, cut bool) wire.Payload {
		return kinds.Encode(&resultPayload{Status: "completed", Outcome: text, Truncated: cut})
	})
}

// resultPayload is a result that may say that it was truncated, as a response may.
type resultPayload struct {
	Status    string         `json:"status"`
	Outcome   string         `json:"outcome"`
	Data      jsontext.Value `json:"data,omitzero"`
	Error     string         `json:"error,omitzero"`
	Truncated bool           `json:"truncated,omitzero"`
}

// failedResult returns the final report on a delegation that failed with err, nil if err is
// nil.
func failedResult(err error) wire.Payload {
	if err == nil {
		return nil
	}
	e := kinds.AsError(err)
	return kinds.Encode(&resultPayload{Status: "failed", Outcome: e.Message, Error: string(e.Code)})
}

// asPayload returns the output if it is a payload of that kind.
func (o *commandOutput) asPayload(kind string) (wire.Payload, bool) {
	text := wire.Payload(bytes.TrimSpace(o.text))
	row, _ := kinds.Lookup(kind)
	if o.cut || len(text) == 0 || text[0] != '{' || row.CheckPayload(text) != nil {
		return nil, false
	}
	return text, true
}

// fitText encodes the output as text, without the line break at its end. It cuts the text if
// its encoding is too long for a message.
func (o *commandOutput) fitText(encode func(text string, cut bool) wire.Payload) wire.Payload {
	text := bytes.TrimSuffix(o.text, []byte("\n"))
	if p := encode(string(text), o.cut); len(p) <= maxPayload {
		return p
	}
	// How long a character's encoding is depends on the character.
	n := sort.Search(len(text), func(n int) bool { return len(encode(string(text[:n+1]), true)) > maxPayload })
	return encode(string(trimPartialRune(text[:n])), true)
}

// trimPartialRune returns text without an incomplete character at its end.
func trimPartialRune(text []byte) []byte {
	for n := 1; n <= min(utf8.UTFMax, len(text)); n++ {
		if at := len(text) - n; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return text[:at]
			}
			break
		}
	}
	return text
}
