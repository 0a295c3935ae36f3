package openintent

import (
	"slices"

	"github.com/acpd/acpd/openintent/chain"
)

// level is what an agent may do with an intent.
type level int

const (
	levelNone  level = iota
	levelRead        // see it; take part in its channels
	levelWrite       // change it; create channels
	levelAdmin       // decide who may do what
)

var levels = map[string]level{"read": levelRead, "write": levelWrite, "admin": levelAdmin}

// policies are the default policies that are understood. The SDK knows but
// open and closed, so these two are answered.
var policies = []string{"open", "closed", "restricted", "private"}

// access says who may do what with an intent.
type access struct {
	Policy      string       `json:"policy"`
	Entries     []Entry      `json:"entries"`
	Assignments []Assignment `json:"assignments"`
}

const maxAccess = 1 << 20 // bytes of it

// clone copies a so that its lists can be changed.
func (a access) clone() access {
	a.Entries, a.Assignments = slices.Clone(a.Entries), slices.Clone(a.Assignments)
	return a
}

// Entry is one entry of an access list (RFC-0011).
type Entry struct {
	ID            string     `json:"id"`
	PrincipalID   string     `json:"principal_id"`
	PrincipalType string     `json:"principal_type"`
	Permission    string     `json:"permission"`
	GrantedBy     string     `json:"granted_by"`
	GrantedAt     chain.Time `json:"granted_at"`
	ExpiresAt     chain.Time `json:"expires_at"`
	Reason        *string    `json:"reason"`
	Home          string     `json:"home,omitzero"` // where the agent, or who has the role, is at home; "" is here
}

// role reports whether the entry is for who has a role.
func (p *Entry) role() bool { return p.PrincipalType == "role" || p.PrincipalType == "group" }

// level returns what who may do. The world is read-locked, or the caller is a write.
func (e *Engine) level(in *intent, who Caller, at chain.Time) level {
	if who.Operator {
		return levelAdmin
	}
	return e.agentLevel(in, agentKey{who.Home, who.Agent}, at)
}

// agentLevel returns what the agent may do. Grants count for agents of the home that
// they name, those without one for agents here.
func (e *Engine) agentLevel(in *intent, k agentKey, at chain.Time) level {
	if k.home == "" && k.id == in.creator {
		return levelAdmin
	}
	l := in.grants.agents[k].level(at)
	if _, assigned := in.grants.assigned[k]; assigned || l < levelWrite && e.isOpenTo(in, k) {
		l = max(l, levelWrite)
	}
	if len(in.grants.roles) > 0 {
		if role := e.roleOf(k, at); role != "" {
			l = max(l, in.grants.roles[agentKey{k.home, role}].level(at))
		}
	}
	return l
}

// hasRole reports whether the agent has the role on the intent: one of another daemon
// if the access list gives that daemon the role.
func (e *Engine) hasRole(in *intent, k agentKey, role string, at chain.Time) bool {
	return e.roleOf(k, at) == role && (k.home == "" || in.grants.roles[agentKey{k.home, role}].level(at) > levelNone)
}

// intent finds an intent for which the caller has a level, and binds its agent:
// who reads uses its id. One that it cannot see is not there.
func (e *Engine) intent(c *Call, id string, need level) (*intent, error) {
	in, fresh, err := e.look(c, id, need)
	if err != nil || !fresh {
		return in, err
	}
	return in, e.bind(c, in)
}

// glance is intent for lists by which a caller finds what it may use. An agent here has
// used nothing by that, and so takes its id from nobody elsewhere; one that is at home
// elsewhere is bound, and can be sent to from then on.
func (e *Engine) glance(c *Call, id string) (*intent, error) {
	in, fresh, err := e.look(c, id, levelRead)
	if err != nil || !fresh || c.Caller.Home == "" {
		return in, err
	}
	return in, e.bind(c, in)
}

// look is intent for what binds in a write of its own, if it is not refused.
func (e *Engine) look(c *Call, id string, need level) (in *intent, fresh bool, err error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.enter(id, c.Caller, need, now())
}

// bind binds who reads. An agent of another daemon for which there is no room on the disk
// reads without it: nothing is written for it, and it has not come.
func (e *Engine) bind(c *Call, in *intent) error {
	if e.CheckRoom(c.Caller.Home) != nil {
		return nil
	}
	return e.write(c.Context(), false, func(t *tx) error {
		in := t.e.intents[in.id]
		if t.roomOnDisk(in, c.Caller, headRoom) != nil {
			return nil
		}
		return t.bind(in, c.Caller)
	})
}

func (e *Engine) enter(id string, who Caller, need level, at chain.Time) (*intent, bool, error) {
	in := e.intents[id]
	if in == nil {
		return nil, false, notFound("intent")
	}
	have := e.level(in, who, at)
	switch {
	case have == levelNone && in.Policy == "open" && e.openTo(who.Home):
		return nil, false, Refuse("agent_homed_elsewhere",
			"another daemon has this agent id here: choose another id, or let the intent's owner grant access to yours, with its home")
	case have == levelNone:
		return nil, false, notFound("intent")
	case have < need:
		return nil, false, Refuse("no_permission", "this needs %s access to the intent: ask its creator", levelName(need))
	}
	return in, !who.Operator && !in.uses(agentKey{who.Home, who.Agent}), nil
}

// enter is that of the Engine for a write which will bind the caller's agent if it is
// fresh: it refuses what there is no room for, before anything is changed.
func (t *tx) enter(id string, who Caller, need level) (in *intent, fresh bool, err error) {
	if in, fresh, err = t.e.enter(id, who, need, t.now); fresh {
		err = in.roomFor(who.Home)
	}
	return in, fresh, err
}

func levelName(l level) string {
	for name, v := range levels {
		if v == l {
			return name
		}
	}
	return "no"
}

// writeIntent runs fn in a write that the caller has the level for, and binds
// the caller's agent.
func (e *Engine) writeIntent(c *Call, id string, need level, fn func(*tx, *intent) error) error {
	return e.write(c.Context(), false, func(t *tx) error {
		in, fresh, err := t.enter(id, c.Caller, need)
		if err != nil {
			return err
		}
		if !c.Removes {
			if err := t.roomOnDisk(in, c.Caller, c.Size+headRoom); err != nil {
				return err
			}
		}
		if err := fn(t, in); err != nil || !fresh {
			return err
		}
		return t.bind(in, c.Caller)
	})
}

// coordinates reports whether the caller is a coordinator of the intent: an
// operator, an agent assigned as one, or one whom an admin has appointed.
func (e *Engine) coordinates(in *intent, who Caller, at chain.Time) bool {
	if who.Operator {
		return true
	}
	if i := in.assignment(agentKey{who.Home, who.Agent}); i >= 0 && in.Assignments[i].Role == roleCoordinator {
		return true
	}
	for _, co := range in.coords {
		if co.doc.AgentID == who.Agent && co.doc.Home == who.Home && co.live(at) {
			return true
		}
	}
	return false
}
