package openintent

import (
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

// Assign is an assignment as it is asked for.
type Assign struct {
	AgentID string `json:"agent_id"`
	Role    string `json:"role"`
	Home    string `json:"home,omitzero"`
}

// AssignAgent assigns an agent to the intent, or gives one that is assigned another role.
func (e *Engine) AssignAgent(c *Call, intentID string, want Assign) (done Assignment, err error) {
	if want.Role == "" {
		want.Role = "worker"
	}
	if !validName(want.AgentID) {
		return done, BadAgentID("agent_id")
	}
	if len(want.Role) > maxAgentID {
		return done, Invalid("role", "at most %d bytes", maxAgentID)
	}
	need := levelWrite
	if want.Role == roleCoordinator {
		need = levelAdmin // a coordinator manages every channel
	}
	err = e.changeAccess(c, intentID, need, func(in *intent, a *access, at chain.Time) (*event, error) {
		if in.terminal() {
			return nil, Refuse("intent_terminal", "the intent is %s: nobody works on it any more", in.status)
		}
		k, err := c.grantee(in, "agent_id", want.AgentID, want.Home)
		if err != nil {
			return nil, err
		}
		done = Assignment{ID: e.newID(idAssignment, at), IntentID: in.id, AgentID: k.id, Role: want.Role, AssignedAt: at, Home: k.home}
		if i := in.assignment(k); i >= 0 {
			old := a.Assignments[i]
			if old.Role == roleCoordinator && e.level(in, c.Caller, at) < levelAdmin {
				return nil, Refuse("no_permission", "changing a coordinator's role needs admin access to the intent")
			}
			done.ID, done.AssignedAt = old.ID, old.AssignedAt
			a.Assignments[i] = done
		} else {
			a.Assignments = append(a.Assignments, done)
		}
		return &event{kind: "agent_assigned", payload: atHome(k.home, "agent_id", k.id, "role", want.Role)}, nil
	})
	return done, err
}

// ListAssignments returns the assignments of the intent.
func (e *Engine) ListAssignments(c *Call, intentID string) ([]Assignment, error) {
	return view(e, c, intentID, func(in *intent) []Assignment { return append([]Assignment{}, in.Assignments...) })
}

// UnassignAgent takes the assignment of an agent back, who is called by its id or name.
func (e *Engine) UnassignAgent(c *Call, intentID, agent string) error {
	need := levelAdmin
	if agent == c.Caller.Agent || agent == c.Caller.name {
		need = levelRead
	}
	return e.changeAccess(c, intentID, need, func(in *intent, a *access, _ chain.Time) (*event, error) {
		k, err := c.grantee(in, "agent_id", agent, "")
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
}
