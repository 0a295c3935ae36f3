package object

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const HomeDigits = 64

// petnameForm matches the names that people give to daemons, up to maxPetname bytes. A bound in the
// expression itself would cost every daemon the memory of as many copies of it.
var petnameForm = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

const maxPetname = 32

func IsPetname(s string) bool { return len(s) <= maxPetname && petnameForm.MatchString(s) }

// IsHome reports whether s is the id of a daemon.
func IsHome(s string) bool { return IsHex(s, HomeDigits) }

// IsHex reports whether s is a number of so many lower-case hexadecimal digits.
func IsHex(s string, digits int) bool {
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}

// SplitAgentName splits the name of another daemon's agent. far reports whether name is one.
func SplitAgentName(name string) (id, home string, far bool) {
	at := len(name) - HomeDigits - 1
	if at < 1 || name[at] != '@' || !IsHome(name[at+1:]) {
		return name, "", false
	}
	return name[:at], name[at+1:], true
}

// ShortenOwnName returns only the id if name is the viewer's own, or else name.
func ShortenOwnName(name, viewer string) string {
	if name != viewer {
		return name
	}
	id, _, _ := SplitAgentName(name)
	return id
}

// IsValidAgentName reports whether text may name an agent.
func IsValidAgentName(text string) bool {
	id, _, _ := SplitAgentName(text)
	return IsAgentID(id)
}

// NewHomeByNameError refuses a daemon that is called by its petname.
func NewHomeByNameError(field string) *Error {
	return NewError("home_by_name", "%s: a daemon's name is known only on one machine: give its 64 digits (acpctl peers --json shows them)", field).
		WithMember("errors", []any{map[string]any{"loc": []any{"body", field}, "msg": "the 64 digits of a daemon are needed", "type": "value_error"}})
}

// AgentRef is an element of a list of agents. It is text, or an object if an agent here has the text
// as its id.
type AgentRef struct {
	AgentID string `json:"agent_id"`
	Home    string `json:"home"`
}

// UnmarshalJSON reads a string or an object.
func (n *AgentRef) UnmarshalJSON(text []byte) error {
	if jsontext.Value(text).Kind() == '"' {
		return json.Unmarshal(text, &n.AgentID)
	}
	type object AgentRef
	return json.Unmarshal(text, (*object)(n))
}

// Daemon is the agent as which a daemon asks another for subscribe/home.
const Daemon = System

// ErrNoAgent refuses a request that needs an agent and names none.
var ErrNoAgent = NewError("no_agent", "%s: name an agent; what an operator may do, it may do at the intent's host only", "X-Agent-ID")

// NewAgentIDError refuses the agent id in a field or header.
func NewAgentIDError(field string) *Error {
	return NewError("bad_agent_id",
		"%s: an agent id has at most %d letters, digits and . _ @ + ~ : -, begins with a letter or digit, and is neither \"system\", \"operator\" nor a role", field, MaxAgentID)
}

// Operator is the id under which an operator acts that names no agent. No agent has it.
const Operator = "operator"
