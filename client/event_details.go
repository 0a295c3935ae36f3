package client

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client/jsonrpc"
)

// DescribeDetails returns the details of an event on one line, in the daemon's order: texts as they
// are, and any other value after its name. It leaves out ids and checksums, which only programs
// want. It removes what a terminal would obey, as [Line] does. It is not shortened: callers cut it.
func (e *Event) DescribeDetails() string {
	dec := jsontext.NewDecoder(bytes.NewReader(e.Details))
	if begin, err := dec.ReadToken(); err != nil || begin.Kind() != '{' {
		return ""
	}
	var words []string
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			break
		}
		word := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			break
		}
		if word == "id" || word == "sha256" {
			continue
		}
		if value.Kind() != '"' {
			words = append(words, word+" "+string(value))
		} else if text, err := jsontext.AppendUnquote(nil, value); err == nil && len(text) > 0 {
			words = append(words, string(text))
		}
	}
	return Line(strings.Join(words, " · "))
}

// NeedsOwner reports whether something waits for the daemon's owner since the event.
func (e *Event) NeedsOwner() bool {
	var details struct {
		Needs string `json:"needs"`
	}
	return e.Type == EventApproval || e.Type == EventBudget && jsonrpc.ReadValue(e.Details, &details, false) == nil && details.Needs == "person"
}
