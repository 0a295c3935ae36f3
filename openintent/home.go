package openintent

import (
	"maps"
	"net/http"
	"slices"
)

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
	if who.Home != "" {
		theirs := 0
		for _, home := range in.Homes {
			if home == who.Home {
				theirs++
			}
		}
		if theirs >= maxEntries {
			return tooMany("agents of that daemon in this intent", maxEntries, "let the intent's owner free some ids")
		}
	}
	if len(in.Homes) >= 10*maxEntries {
		return tooMany("agents of this intent", 10*maxEntries, "let its owner free some ids")
	}
	access := in.access.clone()
	access.Homes[who.Agent] = who.Home
	if err := t.saveAccess(in, access); err != nil {
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

// Home says which daemon speaks for an agent about an intent; "" is this one.
type Home struct {
	AgentID string `json:"agent_id"`
	Home    string `json:"home"`
}

func (e *Engine) listHomes(c *call) (int, any, error) {
	return e.view(c, func(in *intent) any {
		homes := []Home{}
		for _, agent := range slices.Sorted(maps.Keys(in.Homes)) {
			homes = append(homes, Home{AgentID: agent, Home: in.Homes[agent]})
		}
		return homes
	})
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
