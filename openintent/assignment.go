package openintent

import (
	"slices"

	"github.com/acpd/acpd/openintent/chain"
)

// Assignment tells that an agent works on an intent.
type Assignment struct {
	ID         string     `json:"id"`
	IntentID   string     `json:"intent_id"`
	AgentID    string     `json:"agent_id"`
	Role       string     `json:"role"`
	AssignedAt chain.Time `json:"assigned_at"`
	Home       string     `json:"home,omitzero"`
}

const roleCoordinator = "coordinator"

// Assign asks to assign an agent.
type Assign struct {
	AgentID string `json:"agent_id"`
	Role    string `json:"role"`
	Home    string `json:"home,omitzero"`
}

// AssignAgent assigns an agent to the intent, or gives one that is assigned another role.
func (e *Engine) AssignAgent(c *Call, intentID string, want *Assign) (done Assignment, err error) {
	if want.Role == "" {
		want.Role = "worker"
	}
	if !isValidAgentName(want.AgentID) {
		return done, NewAgentIDError("agent_id")
	}
	if len(want.Role) > maxAgentID {
		return done, NewFieldError("role", "at most %d bytes", maxAgentID)
	}
	need := levelWrite
	if want.Role == roleCoordinator {
		need = levelAdmin // a coordinator manages every channel
	}
	err = e.changeAccess(c, intentID, need, func(in *intentRecord, a *access, at chain.Time) (*eventDraft, error) {
		if in.isTerminal() {
			return nil, NewError("intent_terminal", "the intent is %s: nobody works on it any more", in.status)
		}
		k, err := c.resolveGrantee(in, "agent_id", want.AgentID, want.Home)
		if err != nil {
			return nil, err
		}
		done = Assignment{ID: e.newID(idAssignment, at), IntentID: in.id, AgentID: k.id, Role: want.Role, AssignedAt: at, Home: k.home}
		if i := in.assignmentIndex(k); i >= 0 {
			old := a.Assignments[i]
			if old.Role == roleCoordinator && e.callerAccessLevel(in, c.Caller, at) < levelAdmin {
				return nil, NewError("no_permission", "changing a coordinator's role needs admin access to the intent")
			}
			done.ID, done.AssignedAt = old.ID, old.AssignedAt
			a.Assignments[i] = done
		} else {
			a.Assignments = append(a.Assignments, done)
		}
		return &eventDraft{kind: "agent_assigned", payload: encodeJSONObjectWithHome(k.home, "agent_id", k.id, "role", want.Role)}, nil
	})
	return done, err
}

// ListAssignments returns the assignments of the intent.
func (e *Engine) ListAssignments(c *Call, intentID string) ([]Assignment, error) {
	return viewIntent(e, c, intentID, nil, func(in *intentRecord) []Assignment { return append([]Assignment{}, in.Assignments...) })
}

// UnassignAgent takes back the assignment of an agent, which is called by its id or name.
func (e *Engine) UnassignAgent(c *Call, intentID, agent string) error {
	need := levelAdmin
	if agent == c.Caller.Agent || agent == c.Caller.name {
		need = levelRead
	}
	return e.changeAccess(c, intentID, need, func(in *intentRecord, a *access, _ chain.Time) (*eventDraft, error) {
		k, err := c.resolveGrantee(in, "agent_id", agent, "")
		if err != nil {
			return nil, err
		}
		i := in.assignmentIndex(k)
		if i < 0 {
			return nil, newNotFoundError("assignment")
		}
		a.Assignments = slices.Delete(a.Assignments, i, i+1)
		return &eventDraft{kind: "agent_unassigned", payload: encodeJSONObjectWithHome(k.home, "agent_id", k.id)}, nil
	})
}
