package openintent

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An agent has one name on an intent. The name of an agent of the intent's own daemon is its id.
// The name of another daemon's agent is its id, an @ and the 64 digits of that daemon. The store
// and answers have names. Callers may use a name, or an id and the home.

// agentKey identifies an agent, because the same id may be in use at several daemons.
type agentKey struct{ home, id string } // home: "" is here

const homeDigits = 64

// petnameForm matches the names that people give to daemons, up to maxPetname bytes. A bound in the
// expression itself would cost every daemon the memory of as many copies of it.
var petnameForm = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

const maxPetname = 32

func isPetname(s string) bool { return len(s) <= maxPetname && petnameForm.MatchString(s) }

// isHome reports whether s is the id of a daemon.
func isHome(s string) bool { return isHex(s, homeDigits) }

// isHex reports whether s is a number of so many lower-case hexadecimal digits.
func isHex(s string, digits int) bool {
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}

// splitAgentName splits the name of another daemon's agent. far reports whether name is one.
func splitAgentName(name string) (id, home string, far bool) {
	at := len(name) - homeDigits - 1
	if at < 1 || name[at] != '@' || !isHome(name[at+1:]) {
		return name, "", false
	}
	return name[:at], name[at+1:], true
}

// agentNameOf returns the name of an agent. An agent here gets its home too if its id looks like
// another daemon's agent's name.
func (w *world) agentNameOf(k agentKey) string {
	home := k.home
	if home == "" {
		if _, _, far := splitAgentName(k.id); !far {
			return k.id
		}
		home = w.self
	}
	return k.id + "@" + home
}

// agentKeyOf returns the agent with a name.
func (w *world) agentKeyOf(name string) agentKey {
	id, home, _ := splitAgentName(name)
	return w.newAgentKey(id, home)
}

// newAgentKey returns the agent with an id and a home, which may be this daemon's own.
func (w *world) newAgentKey(id, home string) agentKey {
	if home == w.self {
		home = ""
	}
	return agentKey{home, id}
}

// shortenOwnName returns only the id if name is the viewer's own, or else name.
func shortenOwnName(name, viewer string) string {
	if name != viewer {
		return name
	}
	id, _, _ := splitAgentName(name)
	return id
}

// isValidAgentName reports whether text may name an agent.
func isValidAgentName(text string) bool {
	id, _, _ := splitAgentName(text)
	return IsAgentID(id)
}

// fillCallerName returns the caller with its name.
func (w *world) fillCallerName(who Caller) Caller {
	who.name = w.agentNameOf(agentKey{who.Home, who.Agent})
	return who
}

// resolveAgent finds the agent that a caller names. text is the member field of a body, and home
// the one beside it, "" for none. said reports whether either says where the agent is at home; if
// not, k is an agent here. If in is nil, the agents here are those that are registered. The world
// is read-locked, or this is a write.
func (w *world) resolveAgent(in *intentRecord, field, text, home string) (k agentKey, said bool, err error) {
	if home != "" {
		if !isHome(home) {
			return k, false, newHomeByNameError("home")
		}
		if !IsAgentID(text) {
			return k, false, NewAgentIDError(field)
		}
		return w.newAgentKey(text, home), true, nil
	}
	sign := strings.LastIndexByte(text, '@')
	if sign < 0 {
		return agentKey{"", text}, false, nil
	}
	id, home, said := splitAgentName(text)
	switch here := w.isAgentIDUsedHere(in, text); {
	case here && (said || w.cfg.Petname != nil && w.cfg.Petname(text[sign+1:])):
		return k, false, NewError("ambiguous", "%s: an agent here has this whole name: give home, the 64 digits of its daemon, and only the id", field)
	case !here && !said && isPetname(text[sign+1:]):
		return k, false, newHomeByNameError(field)
	}
	return w.newAgentKey(id, home), said, nil
}

// newHomeByNameError refuses a daemon that is called by its petname.
func newHomeByNameError(field string) *Error {
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

// resolveGrantee finds the agent that a grant names. Without a home, the caller's own id means
// the caller, and any other id an agent of this daemon.
func (c *Call) resolveGrantee(in *intentRecord, field, text, home string) (agentKey, error) {
	if home == "" && text == c.Caller.Agent && !c.Caller.Operator {
		return agentKey{c.Caller.Home, text}, nil
	}
	k, _, err := c.e.resolveAgent(in, field, text, home)
	return k, err
}
