package openintent

import (
	"net/http"
	"slices"

	"github.com/acpd/acpd/openintent/chain"
)

// Assignment says that an agent works on an intent.
type Assignment struct {
	ID         string     `json:"id"`
	IntentID   string     `json:"intent_id"`
	AgentID    string     `json:"agent_id"`
	Role       string     `json:"role"`
	AssignedAt chain.Time `json:"assigned_at"`
	Home       string     `json:"home,omitzero"`
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
	if !validName(body.AgentID) {
		return 0, nil, badAgent("agent_id")
	}
	if len(body.Role) > maxAgentID {
		return 0, nil, invalid("role", "at most %d bytes", maxAgentID)
	}
	need := levelWrite
	if body.Role == roleCoordinator {
		need = levelAdmin // a coordinator manages every channel
	}
	var done Assignment
	err := e.changeAccess(c, need, func(in *intent, a *access, at chain.Time) (*event, error) {
		if in.terminal() {
			return nil, conflict("intent_terminal", "the intent is %s: nobody works on it any more", in.status)
		}
		k, err := c.grantee(in, "agent_id", body.AgentID, body.Home)
		if err != nil {
			return nil, err
		}
		done = Assignment{ID: e.newID(idAssignment, at), IntentID: in.id, AgentID: k.id, Role: body.Role, AssignedAt: at, Home: k.home}
		if i := in.assignment(k); i >= 0 {
			old := a.Assignments[i]
			if old.Role == roleCoordinator && e.level(in, c.who, at) < levelAdmin {
				return nil, forbidden("no_permission", "changing a coordinator's role needs admin access to the intent")
			}
			done.ID, done.AssignedAt = old.ID, old.AssignedAt
			a.Assignments[i] = done
		} else {
			a.Assignments = append(a.Assignments, done)
		}
		return &event{kind: "agent_assigned", payload: atHome(k.home, "agent_id", k.id, "role", body.Role)}, nil
	})
	return http.StatusCreated, done, err
}

func (e *Engine) listAssignments(c *call) (int, any, error) {
	return e.view(c, func(in *intent) any { return append([]Assignment{}, in.Assignments...) })
}

func (e *Engine) unassignAgent(c *call) (int, any, error) {
	need := levelAdmin
	if c.arg(1) == c.who.Agent || c.arg(1) == c.who.name {
		need = levelRead
	}
	err := e.changeAccess(c, need, func(in *intent, a *access, _ chain.Time) (*event, error) {
		k, err := c.grantee(in, "agent_id", c.arg(1), "")
		if err != nil {
			return nil, err
		}
		i := in.assignment(k)
		if i < 0 {
			return nil, notFound("assignment")
		}
		a.Assignments = slices.Delete(a.Assignments, i, i+1)
		return &event{kind: "agent_unassigned", payload: atHome(k.home, "agent_id", k.id)}, nil
	})
	return http.StatusNoContent, nil, err
}
