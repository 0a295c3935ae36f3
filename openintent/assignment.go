package openintent

import (
	"net/http"
	"slices"
)

// Assignment says that an agent works on an intent.
type Assignment struct {
	ID         string `json:"id"`
	IntentID   string `json:"intent_id"`
	AgentID    string `json:"agent_id"`
	Role       string `json:"role"`
	AssignedAt stamp  `json:"assigned_at"`
	Home       string `json:"home,omitzero"`
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
			return nil, conflict("intent_terminal", "the intent is %s: nobody works on it any more", in.status)
		}
		done = Assignment{ID: e.newID(idAssignment, t.now), IntentID: in.id, AgentID: body.AgentID, Role: body.Role, AssignedAt: t.now, Home: body.Home}
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
	return e.view(c, func(in *intent) any { return append([]Assignment{}, in.Assignments...) })
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
