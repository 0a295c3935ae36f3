package openintent

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An agent has one name on an intent: of one at home at the intent's daemon its id,
// of another daemon's agent its id, an @ and the 64 digits of that daemon. Names stand
// in what is stored and answered; callers may name an agent so, or by its id with its
// home beside it.

// agentKey is an agent: the same id may be in use at several daemons.
type agentKey struct{ home, id string } // home: "" is here

const homeDigits = 64

var (
	homeForm    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	petnameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`) // of the names that people give to daemons
)

// cutHome takes a name with a home apart; far says that it is one.
func cutHome(name string) (id, home string, far bool) {
	at := len(name) - homeDigits - 1
	if at < 1 || name[at] != '@' || !homeForm.MatchString(name[at+1:]) {
		return name, "", false
	}
	return name[:at], name[at+1:], true
}

// name returns the name of an agent. An id here that looks like another's name has
// its home, too.
func (w *world) name(k agentKey) string {
	home := k.home
	if home == "" {
		if _, _, far := cutHome(k.id); !far {
			return k.id
		}
		home = w.self
	}
	return k.id + "@" + home
}

// key returns the agent with a name.
func (w *world) key(name string) agentKey {
	id, home, _ := cutHome(name)
	return w.at(id, home)
}

// at returns the agent with an id and a home, which may be said of one here.
func (w *world) at(id, home string) agentKey {
	if home == w.self {
		home = ""
	}
	return agentKey{home, id}
}

// ownID returns the id alone where name is the viewer's own.
func ownID(name, viewer string) string {
	if name != viewer {
		return name
	}
	id, _, _ := cutHome(name)
	return id
}

// validName reports whether text may name an agent.
func validName(text string) bool {
	id, _, _ := cutHome(text)
	return ValidAgentID(id)
}

// known returns the caller with its name.
func (w *world) known(who Caller) Caller {
	who.name = w.name(agentKey{who.Home, who.Agent})
	return who
}

// meant finds out whom a caller names: text is the member field of what it says, home
// the one beside it, "" for none. said reports whether either says where the agent is
// at home; else the id is returned as one of here. The world is read-locked, or the
// caller is a write; without an intent its agents are those that are registered here.
func (e *Engine) meant(in *intent, field, text, home string) (k agentKey, said bool, err error) {
	if home != "" {
		if !homeForm.MatchString(home) {
			return k, false, byName("home")
		}
		if !ValidAgentID(text) {
			return k, false, BadAgentID(field)
		}
		return e.at(text, home), true, nil
	}
	sign := strings.LastIndexByte(text, '@')
	if sign < 0 {
		return agentKey{"", text}, false, nil
	}
	id, home, said := cutHome(text)
	switch here := e.here(in, text); {
	case here && (said || e.cfg.Petname != nil && e.cfg.Petname(text[sign+1:])):
		return k, false, Refuse("ambiguous", "%s: an agent here is called so, all of it: say home, the 64 digits of its daemon, with the id alone", field)
	case !here && !said && petnameForm.MatchString(text[sign+1:]):
		return k, false, byName(field)
	}
	return e.at(id, home), said, nil
}

func byName(field string) *Error {
	return Refuse("home_by_name", "%s: a daemon's name is known to one machine alone: name its 64 digits (acpctl peers --json shows them)", field).
		With("errors", []any{map[string]any{"loc": []any{"body", field}, "msg": "the 64 digits of a daemon are needed", "type": "value_error"}})
}

// named is an element of a list of agents: text, or an object where text will not do.
type Named struct {
	AgentID string `json:"agent_id"`
	Home    string `json:"home"`
}

func (n *Named) UnmarshalJSON(text []byte) error {
	if jsontext.Value(text).Kind() == '"' {
		return json.Unmarshal(text, &n.AgentID)
	}
	type object Named
	return json.Unmarshal(text, (*object)(n))
}

// grantee finds out whom a grant names: without a home itself, where it is the
// caller's own id, or an agent of this daemon.
func (c *Call) grantee(in *intent, field, text, home string) (agentKey, error) {
	if home == "" && text == c.Caller.Agent && !c.Caller.Operator {
		return agentKey{c.Caller.Home, text}, nil
	}
	k, _, err := c.e.meant(in, field, text, home)
	return k, err
}

// recipient finds out whom a message to text goes to, now: without a home to an agent
// here that there is, or to the one that a daemon in open_to has, or to one here that
// there will be.
func (e *Engine) recipient(ch *channel, text, home string) (string, error) {
	k, said, err := e.meant(ch.in, "to", text, home)
	if err != nil || said || e.here(ch.in, k.id) {
		return e.name(k), err
	}
	homes := e.holders(ch.in, k.id)
	for _, m := range ch.doc.Members {
		if m := e.key(m); m.id == k.id && m.home != "" && e.openTo(m.home) {
			homes.add(m.home, 0)
		}
	}
	for home := range homes {
		if k.home != "" {
			return "", Refuse("ambiguous", "to: several daemons have an agent of this id: say home, the 64 digits of one of them")
		}
		k.home = home
	}
	return e.name(k), nil
}
