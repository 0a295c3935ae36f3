package openintent

import (
	"maps"
	"net/http"
	"slices"
	"strings"
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

// Assignment says that an agent works on an intent.
type Assignment struct {
	ID         string `json:"id"`
	IntentID   string `json:"intent_id"`
	AgentID    string `json:"agent_id"`
	Role       string `json:"role"`
	AssignedAt stamp  `json:"assigned_at"`
	Home       string `json:"home,omitzero"`
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
	if agent == in.doc.CreatedBy {
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

// claim decides whether who may speak as its agent about the intent: an agent
// id belongs to one home there. fresh says that it has no home yet.
func (e *Engine) claim(in *intent, who Caller) (fresh bool, err error) {
	if who.Operator {
		return false, nil
	}
	taken := conflict("agent_homed_elsewhere", "another daemon speaks for this agent id here: choose another id, or let the intent's owner free it")
	if home, bound := in.Homes[who.Agent]; bound {
		if home != who.Home {
			return false, taken
		}
		return false, nil
	}
	named := func(agent, home string) bool { return agent == who.Agent && home != "" && home != who.Home }
	if slices.ContainsFunc(in.Entries, func(p Entry) bool { return named(p.PrincipalID, p.Home) }) ||
		slices.ContainsFunc(in.Assignments, func(a Assignment) bool { return named(a.AgentID, a.Home) }) {
		return false, taken
	}
	if who.Home != "" && e.agents[agentKey{"", who.Agent}] != nil {
		return false, taken
	}
	return true, nil
}

// bind gives who's agent its home, once it has none.
func (t *tx) bind(in *intent, who Caller) error {
	fresh, err := t.e.claim(in, who)
	if !fresh || err != nil {
		return err
	}
	if len(in.Homes) >= 10*maxEntries {
		return tooMany("agents of this intent", 10*maxEntries)
	}
	access := in.access.clone()
	access.Homes[who.Agent] = who.Home
	if err := t.saveIntent(in, in.doc, access); err != nil {
		return err
	}
	t.apply(func() { in.access = access })
	if who.Home == "" {
		return nil
	}
	// A kind that clients know: they read the log with a closed enumeration.
	_, err = t.log(in, event{kind: "access_granted", actor: who.Agent, payload: members("agent_id", who.Agent, "home", who.Home)})
	return err
}

// intent finds an intent for which the caller has a level. One that it cannot
// see is not there.
func (e *Engine) intent(c *call, id string, need level) (*intent, error) {
	e.mu.RLock()
	in, fresh, err := e.enter(id, c.who, need, now())
	e.mu.RUnlock()
	if err != nil || !fresh || c.who.Home == "" {
		return in, err
	}
	return in, e.write(c.Context(), false, func(t *tx) error { return t.bind(in, c.who) })
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

// ACL is an intent's access list as it is answered.
type ACL struct {
	IntentID string  `json:"intent_id"`
	Default  string  `json:"default_policy"` // open or closed
	Policy   string  `json:"policy"`         // what was set
	Entries  []Entry `json:"entries"`
}

func (in *intent) acl() ACL {
	a := ACL{IntentID: in.doc.ID, Default: "closed", Policy: in.Policy, Entries: append([]Entry{}, in.Entries...)}
	if in.Policy == "open" {
		a.Default = "open"
	}
	return a
}

func (e *Engine) getACL(c *call) (int, any, error) {
	in, err := e.intent(c, c.arg(0), levelRead)
	if err != nil {
		return 0, nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return http.StatusOK, in.acl(), nil
}

type setACL struct {
	Default string       `json:"default_policy"`
	Entries []grantEntry `json:"entries"`
}

type grantEntry struct {
	PrincipalID   string  `json:"principal_id"`
	PrincipalType string  `json:"principal_type"`
	Permission    string  `json:"permission"`
	ExpiresAt     stamp   `json:"expires_at,omitzero"`
	Reason        *string `json:"reason,omitzero"`
	Home          string  `json:"home,omitzero"`
}

func (e *Engine) entry(c *call, g grantEntry, at stamp) (Entry, error) {
	if g.PrincipalType == "" {
		g.PrincipalType = "agent"
	}
	if g.Permission == "" {
		g.Permission = "read"
	}
	switch {
	case !slices.Contains([]string{"agent", "user", "role", "group"}, g.PrincipalType):
		return Entry{}, invalid("principal_type", "one of agent, user, role, group")
	case !validAgentID(g.PrincipalID):
		return Entry{}, invalid("principal_id", "an id of an agent or a role is needed")
	case levels[g.Permission] == levelNone:
		return Entry{}, invalid("permission", "one of read, write, admin")
	case len(g.Home) > maxAgentID || g.Reason != nil && len(*g.Reason) > 4096:
		return Entry{}, invalid("reason", "at most 4096 bytes")
	}
	return Entry{
		ID: e.newID(idEntry, at), PrincipalID: g.PrincipalID, PrincipalType: g.PrincipalType, Permission: g.Permission,
		GrantedBy: c.who.Agent, GrantedAt: at, ExpiresAt: g.ExpiresAt, Reason: g.Reason, Home: g.Home,
	}, nil
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
			return tooMany("entries", maxEntries)
		}
		if err := t.saveIntent(in, in.doc, access); err != nil {
			return err
		}
		t.apply(func() { in.access = access })
		ev.actor = c.who.Agent
		_, err = t.log(in, *ev)
		return err
	})
}

func (e *Engine) putACL(c *call) (int, any, error) {
	var body setACL
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	if body.Default == "" {
		body.Default = "open"
	}
	if !slices.Contains(policies, body.Default) {
		return 0, nil, invalid("default_policy", "one of %s", strings.Join(policies, ", "))
	}
	if len(body.Entries) > maxEntries {
		return 0, nil, invalid("entries", "at most %d", maxEntries)
	}
	var acl ACL
	err := e.changeAccess(c, levelAdmin, func(t *tx, in *intent, a *access) (*event, error) {
		a.Policy, a.Entries = body.Default, nil
		for _, g := range body.Entries {
			p, err := e.entry(c, g, t.now)
			if err != nil {
				return nil, err
			}
			a.Entries = append(a.Entries, p)
		}
		acl = (&intent{doc: in.doc, access: *a}).acl()
		return &event{kind: "access_granted", payload: members("default_policy", body.Default, "entries", a.Entries)}, nil
	})
	return http.StatusOK, acl, err
}

func (e *Engine) addEntry(c *call) (int, any, error) {
	var body grantEntry
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	var p Entry
	err := e.changeAccess(c, levelAdmin, func(t *tx, in *intent, a *access) (*event, error) {
		var err error
		if p, err = e.entry(c, body, t.now); err != nil {
			return nil, err
		}
		a.Entries = append(a.Entries, p)
		return &event{kind: "access_granted", payload: members("entry_id", p.ID, "principal_id", p.PrincipalID, "principal_type", p.PrincipalType, "permission", p.Permission)}, nil
	})
	return http.StatusCreated, p, err
}

func (e *Engine) dropEntry(c *call) (int, any, error) {
	err := e.changeAccess(c, levelAdmin, func(t *tx, in *intent, a *access) (*event, error) {
		i := slices.IndexFunc(a.Entries, func(p Entry) bool { return p.ID == c.arg(1) })
		if i < 0 {
			return nil, notFound("entry")
		}
		p := a.Entries[i]
		a.Entries = slices.Delete(a.Entries, i, i+1)
		return &event{kind: "access_revoked", payload: members("entry_id", p.ID, "principal_id", p.PrincipalID, "permission", p.Permission)}, nil
	})
	return http.StatusNoContent, nil, err
}

const roleCoordinator = "coordinator"

type assign struct {
	AgentID string `json:"agent_id"`
	Role    string `json:"role"`
	Home    string `json:"home,omitzero"`
}

func (e *Engine) assignAgent(c *call) (int, any, error) {
	var body assign
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	if body.Role == "" {
		body.Role = "worker"
	}
	if !validAgentID(body.AgentID) {
		return 0, nil, badAgent("agent_id")
	}
	if len(body.Role) > maxAgentID || len(body.Home) > maxAgentID {
		return 0, nil, invalid("role", "at most %d bytes", maxAgentID)
	}
	need := levelWrite
	if body.Role == roleCoordinator {
		need = levelAdmin // a coordinator manages every channel
	}
	var done Assignment
	err := e.changeAccess(c, need, func(t *tx, in *intent, a *access) (*event, error) {
		if in.terminal() {
			return nil, conflict("intent_terminal", "the intent is %s: nobody works on it any more", in.doc.Status)
		}
		done = Assignment{ID: e.newID(idAssignment, t.now), IntentID: in.doc.ID, AgentID: body.AgentID, Role: body.Role, AssignedAt: t.now, Home: body.Home}
		if i := slices.IndexFunc(a.Assignments, func(o Assignment) bool { return o.AgentID == body.AgentID }); i >= 0 {
			old := a.Assignments[i]
			if old.Role == roleCoordinator && e.level(in, c.who, t.now) < levelAdmin {
				return nil, forbidden("no_permission", "changing a coordinator's role needs admin access to the intent")
			}
			done.ID = old.ID
			a.Assignments[i] = done
		} else {
			a.Assignments = append(a.Assignments, done)
		}
		return &event{kind: "agent_assigned", payload: members("agent_id", body.AgentID, "role", body.Role)}, nil
	})
	return http.StatusCreated, done, err
}

func (e *Engine) listAssignments(c *call) (int, any, error) {
	in, err := e.intent(c, c.arg(0), levelRead)
	if err != nil {
		return 0, nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return http.StatusOK, append([]Assignment{}, in.Assignments...), nil
}

func (e *Engine) unassignAgent(c *call) (int, any, error) {
	agent := c.arg(1)
	need := levelAdmin
	if agent == c.who.Agent {
		need = levelRead
	}
	err := e.changeAccess(c, need, func(t *tx, in *intent, a *access) (*event, error) {
		i := slices.IndexFunc(a.Assignments, func(o Assignment) bool { return o.AgentID == agent })
		if i < 0 {
			return nil, notFound("assignment")
		}
		a.Assignments = slices.Delete(a.Assignments, i, i+1)
		return &event{kind: "agent_unassigned", payload: members("agent_id", agent)}, nil
	})
	return http.StatusNoContent, nil, err
}

// Home says which daemon speaks for an agent about an intent; "" is this one.
type Home struct {
	AgentID string `json:"agent_id"`
	Home    string `json:"home"`
}

func (e *Engine) listHomes(c *call) (int, any, error) {
	in, err := e.intent(c, c.arg(0), levelRead)
	if err != nil {
		return 0, nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	homes := []Home{}
	for _, agent := range slices.Sorted(maps.Keys(in.Homes)) {
		homes = append(homes, Home{AgentID: agent, Home: in.Homes[agent]})
	}
	return http.StatusOK, homes, nil
}

func (e *Engine) freeHome(c *call) (int, any, error) {
	agent := c.arg(1)
	err := e.changeAccess(c, levelAdmin, func(t *tx, in *intent, a *access) (*event, error) {
		home, bound := a.Homes[agent]
		if !bound {
			return nil, notFound("home")
		}
		delete(a.Homes, agent)
		return &event{kind: "access_revoked", payload: members("agent_id", agent, "home", home)}, nil
	})
	return http.StatusNoContent, nil, err
}
