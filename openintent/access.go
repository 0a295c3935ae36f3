package openintent

import (
	"maps"
	"slices"
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

// access says who may do what with an intent, and where agents are at home.
type access struct {
	Policy      string            `json:"policy"`
	Entries     []Entry           `json:"entries"`
	Assignments []Assignment      `json:"assignments"`
	Homes       map[string]string `json:"homes"` // agent id -> its home; "" is here
}

func newAccess() access { return access{Policy: "open", Homes: make(map[string]string)} }

// clone copies a so that the copy can be changed.
func (a access) clone() access {
	a.Entries, a.Assignments, a.Homes = slices.Clone(a.Entries), slices.Clone(a.Assignments), maps.Clone(a.Homes)
	return a
}

// Entry is one entry of an access list (RFC-0011).
type Entry struct {
	ID            string  `json:"id"`
	PrincipalID   string  `json:"principal_id"`
	PrincipalType string  `json:"principal_type"`
	Permission    string  `json:"permission"`
	GrantedBy     string  `json:"granted_by"`
	GrantedAt     stamp   `json:"granted_at"`
	ExpiresAt     stamp   `json:"expires_at"`
	Reason        *string `json:"reason"`
	Home          string  `json:"home,omitzero"` // the daemon at which the agent must be
}

// level returns what who may do. The world is read-locked, or the caller is a write.
func (e *Engine) level(in *intent, who Caller, at stamp) level {
	if who.Operator {
		return levelAdmin
	}
	return e.agentLevel(in, who.Agent, at)
}

// agentLevel returns what the agent may do, which is at home where the intent says.
func (e *Engine) agentLevel(in *intent, agent string, at stamp) level {
	if agent == in.creator {
		return levelAdmin
	}
	l := levelNone
	if in.Policy == "open" {
		l = levelWrite
	}
	for _, a := range in.Assignments {
		if a.AgentID == agent {
			l = max(l, levelWrite)
		}
	}
	role := ""
	for _, p := range in.Entries {
		if p.ExpiresAt != 0 && p.ExpiresAt <= at {
			continue
		}
		named := p.PrincipalID == agent
		if p.PrincipalType == "role" || p.PrincipalType == "group" {
			if role == "" {
				role = e.roleOf(in, agent, at)
			}
			named = role != "" && p.PrincipalID == role
		}
		if named {
			l = max(l, levels[p.Permission])
		}
	}
	return l
}

// intent finds an intent for which the caller has a level, and binds its agent:
// who reads uses its id. One that it cannot see is not there.
func (e *Engine) intent(c *call, id string, need level) (*intent, error) {
	in, fresh, err := e.look(c, id, need)
	if err != nil || !fresh {
		return in, err
	}
	return in, e.bind(c, in)
}

// look is intent for what binds in a write of its own, if it is not refused.
func (e *Engine) look(c *call, id string, need level) (in *intent, fresh bool, err error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.enter(id, c.who, need, now())
}

func (e *Engine) bind(c *call, in *intent) error {
	return e.write(c.Context(), false, func(t *tx) error { return t.bind(t.e.intents[in.id], c.who) })
}

func (e *Engine) enter(id string, who Caller, need level, at stamp) (*intent, bool, error) {
	in := e.intents[id]
	if in == nil {
		return nil, false, notFound("intent")
	}
	have := e.level(in, who, at)
	if have == levelNone {
		return nil, false, notFound("intent")
	}
	fresh, err := e.claim(in, who)
	if err != nil {
		return nil, false, err
	}
	if have < need {
		return nil, false, forbidden("no_permission", "this needs %s access to the intent: ask its creator", levelName(need))
	}
	return in, fresh, nil
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
func (e *Engine) writeIntent(c *call, id string, need level, fn func(*tx, *intent) error) error {
	return e.write(c.Context(), false, func(t *tx) error {
		in, fresh, err := e.enter(id, c.who, need, t.now)
		if err != nil {
			return err
		}
		if err := fn(t, in); err != nil || !fresh {
			return err
		}
		return t.bind(in, c.who)
	})
}

// coordinates reports whether the caller is a coordinator of the intent (X6).
func (e *Engine) coordinates(in *intent, who Caller, at stamp) bool {
	if who.Operator {
		return true
	}
	for _, a := range in.Assignments {
		if a.AgentID == who.Agent && a.Role == roleCoordinator {
			return true
		}
	}
	for _, co := range in.coords {
		if co.doc.AgentID == who.Agent && co.live(at) {
			return true
		}
	}
	return false
}

// changeAccess lets change have a copy of the intent's access. Who loses a home
// that a new entry names keeps it: homes are freed by hand.
func (e *Engine) changeAccess(c *call, need level, change func(*tx, *intent, *access) (*event, error)) error {
	return e.writeIntent(c, c.arg(0), need, func(t *tx, in *intent) error {
		access := in.access.clone()
		ev, err := change(t, in, &access)
		if err != nil || ev == nil {
			return err
		}
		if len(access.Entries) > maxEntries || len(access.Assignments) > maxEntries {
			return tooMany("entries", maxEntries, "take some back")
		}
		if err := t.saveAccess(in, access); err != nil {
			return err
		}
		t.apply(func() { in.access = access })
		ev.actor = c.who.Agent
		_, err = t.log(in, *ev)
		return err
	})
}
