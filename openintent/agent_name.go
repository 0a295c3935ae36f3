package openintent

import (
	"strings"

	"github.com/acpd/acpd/openintent/object"
)

// An agent has one name on an intent. The name of an agent of the intent's own daemon is its id.
// The name of another daemon's agent is its id, an @ and the 64 digits of that daemon. The store
// and answers have names. Callers may use a name, or an id and the home.

// agentKey identifies an agent, because the same id may be in use at several daemons.
type agentKey struct{ home, id string } // home: "" is here

// agentNameOf returns the name of an agent. An agent here gets its home too if its id looks like
// another daemon's agent's name.
func (w *world) agentNameOf(k agentKey) string {
	home := k.home
	if home == "" {
		if _, _, far := object.SplitAgentName(k.id); !far {
			return k.id
		}
		home = w.self
	}
	return k.id + "@" + home
}

// agentKeyOf returns the agent with a name.
func (w *world) agentKeyOf(name string) agentKey {
	id, home, _ := object.SplitAgentName(name)
	return w.newAgentKey(id, home)
}

// newAgentKey returns the agent with an id and a home, which may be this daemon's own.
func (w *world) newAgentKey(id, home string) agentKey {
	if home == w.self {
		home = ""
	}
	return agentKey{home, id}
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
		if !object.IsHome(home) {
			return k, false, object.NewHomeByNameError("home")
		}
		if !object.IsAgentID(text) {
			return k, false, object.NewAgentIDError(field)
		}
		return w.newAgentKey(text, home), true, nil
	}
	sign := strings.LastIndexByte(text, '@')
	if sign < 0 {
		return agentKey{"", text}, false, nil
	}
	id, home, said := object.SplitAgentName(text)
	switch here := w.isAgentIDUsedHere(in, text); {
	case here && (said || w.cfg.Petname != nil && w.cfg.Petname(text[sign+1:])):
		return k, false, object.NewError("ambiguous", "%s: an agent here has this whole name: give home, the 64 digits of its daemon, and only the id", field)
	case !here && !said && object.IsPetname(text[sign+1:]):
		return k, false, object.NewHomeByNameError(field)
	}
	return w.newAgentKey(id, home), said, nil
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
