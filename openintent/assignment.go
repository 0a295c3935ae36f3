package openintent

import (
	"slices"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// AssignAgent assigns an agent to the intent, or gives one that is assigned another role.
func (e *Engine) AssignAgent(c *Call, intentID string, want *object.Assign) (done object.Assignment, err error) {
	if err := want.Check(); err != nil {
		return done, err
	}
	need := levelWrite
	if want.Role == object.RoleCoordinator {
		need = levelAdmin // a coordinator manages every channel
	}
	err = e.changeAccess(c, intentID, need, func(in *intentRecord, a *access, at chain.Time) (*eventDraft, error) {
		if in.isTerminal() {
			return nil, object.NewError("intent_terminal", "the intent is %s: nobody works on it any more", in.status)
		}
		k, err := c.resolveGrantee(in, "agent_id", want.AgentID, want.Home)
		if err != nil {
			return nil, err
		}
		done = object.Assignment{ID: e.newID(object.IDAssignment, at), IntentID: in.id, AgentID: k.id, Role: want.Role, AssignedAt: at, Home: k.home}
		if i := in.assignmentIndex(k); i >= 0 {
			old := a.Assignments[i]
			if old.Role == object.RoleCoordinator && e.callerAccessLevel(in, c.Caller, at) < levelAdmin {
				return nil, object.NewError("no_permission", "changing a coordinator's role needs admin access to the intent")
			}
			done.ID, done.AssignedAt = old.ID, old.AssignedAt
			a.Assignments[i] = done
		} else {
			a.Assignments = append(a.Assignments, done)
		}
		return &eventDraft{kind: "agent_assigned", payload: object.EncodeJSONObjectWithHome(k.home, "agent_id", k.id, "role", want.Role)}, nil
	})
	return done, err
}

// ListAssignments returns the assignments of the intent.
func (e *Engine) ListAssignments(c *Call, intentID string) ([]object.Assignment, error) {
	return viewIntent(e, c, intentID, nil, func(in *intentRecord) []object.Assignment { return append([]object.Assignment{}, in.Assignments...) })
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
			return nil, object.NewNotFoundError("assignment")
		}
		a.Assignments = slices.Delete(a.Assignments, i, i+1)
		return &eventDraft{kind: "agent_unassigned", payload: object.EncodeJSONObjectWithHome(k.home, "agent_id", k.id)}, nil
	})
}
