package client

import (
	"strings"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/wire"
)

// DescribeDetails returns the details of an event on one line, in the daemon's order: texts as they
// are, and any other value after its name. It leaves out ids and checksums, which only programs
// want. It removes what a terminal would obey, as [Line] does. It is not shortened: callers cut it.
func (e *Event) DescribeDetails() string {
	fields, _ := readPayloadFields(wire.Payload(e.Details))
	var words []string
	for _, f := range fields {
		switch text := f.text(); {
		case f.name == "id" || f.name == "sha256" || text == "":
		case f.value.Kind() == '"':
			words = append(words, text)
		default:
			words = append(words, f.name+" "+text)
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
