package object

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// Policies are the default policies that may be set. The SDK knows only open and closed, so
// answers say one of these two.
var Policies = []string{"open", "closed", "restricted", "private"}

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
	Home          string     `json:"home,omitzero"` // of the agent, or of those that have the role; "" is here
}

// IsForRole reports whether the entry is for the agents that have a role.
func (p *Entry) IsForRole() bool { return p.PrincipalType == "role" || p.PrincipalType == "group" }

// ACL is an intent's access list as it is answered.
type ACL struct {
	IntentID string  `json:"intent_id"`
	Default  string  `json:"default_policy"` // open or closed
	Policy   string  `json:"policy"`         // as it was set
	Entries  []Entry `json:"entries"`
}

// policyForSDK returns a policy as the SDK knows it: all but open are closed.
func policyForSDK(policy string) string {
	if policy == "open" {
		return policy
	}
	return "closed"
}

// SetACL is an access list as it is set: an ACL as it was answered may be sent again.
type SetACL struct {
	IntentID jsontext.Value `json:"intent_id,omitzero"` // as answered; it says nothing
	Default  string         `json:"default_policy"`
	Policy   string         `json:"policy,omitzero"` // if both are given, this one is used
	Entries  []GrantEntry   `json:"entries"`
}

// RequestedPolicy returns the policy that is asked for. A request without one is refused, so that
// access never follows from silence.
func (s *SetACL) RequestedPolicy() (string, error) {
	field, policy := "policy", s.Policy
	if policy == "" {
		field, policy = "default_policy", s.Default
	}
	if !slices.Contains(Policies, policy) {
		return "", NewFieldError(field, "nothing was changed: say who is let in, one of %s", strings.Join(Policies, ", "))
	}
	if s.Default != "" && s.Default != policy && s.Default != policyForSDK(policy) {
		return "", NewFieldError("default_policy", "nothing was changed: policy says something else: leave one of them out")
	}
	return policy, nil
}

// GrantEntry asks for an entry of an access list.
type GrantEntry struct {
	PrincipalID   string     `json:"principal_id"`
	PrincipalType string     `json:"principal_type"`
	Permission    string     `json:"permission"`
	ExpiresAt     chain.Time `json:"expires_at,omitzero"`
	Reason        *string    `json:"reason,omitzero"`
	Home          string     `json:"home,omitzero"`

	// As answered; they say nothing.
	ID        jsontext.Value `json:"id,omitzero"`
	GrantedBy jsontext.Value `json:"granted_by,omitzero"`
	GrantedAt jsontext.Value `json:"granted_at,omitzero"`
}

// Assignment tells that an agent works on an intent.
type Assignment struct {
	ID         string     `json:"id"`
	IntentID   string     `json:"intent_id"`
	AgentID    string     `json:"agent_id"`
	Role       string     `json:"role"`
	AssignedAt chain.Time `json:"assigned_at"`
	Home       string     `json:"home,omitzero"`
}

const RoleCoordinator = "coordinator"

// Assign asks to assign an agent.
type Assign struct {
	AgentID string `json:"agent_id"`
	Role    string `json:"role"`
	Home    string `json:"home,omitzero"`
}

// Home names the daemon at which an agent that has used an intent is at home.
type Home struct {
	AgentID string `json:"agent_id"`
	Home    string `json:"home"` // "" is the intent's daemon
}

// Check fills in missing values, and refuses those that are not allowed.
func (g *GrantEntry) Check() error {
	if g.PrincipalType == "" {
		g.PrincipalType = "agent"
	}
	if g.Permission == "" {
		g.Permission = "read"
	}
	switch {
	case !slices.Contains([]string{"agent", "user", "role", "group"}, g.PrincipalType):
		return NewFieldError("principal_type", "one of agent, user, role, group")
	case !IsValidAgentName(g.PrincipalID):
		return NewFieldError("principal_id", "an id of an agent or a role is needed")
	case !slices.Contains([]string{"read", "write", "admin"}, g.Permission):
		return NewFieldError("permission", "one of read, write, admin")
	}
	return checkText("reason", g.Reason, maxText)
}

// NewACL returns an access list as it is answered.
func NewACL(intent, policy string, entries []Entry) ACL {
	return ACL{IntentID: intent, Default: policyForSDK(policy), Policy: policy, Entries: append([]Entry{}, entries...)}
}

// Check fills in missing values, and refuses those that are not allowed.
func (a *Assign) Check() error {
	if a.Role == "" {
		a.Role = "worker"
	}
	if !IsValidAgentName(a.AgentID) {
		return NewAgentIDError("agent_id")
	}
	return CheckAtMost("role", len(a.Role), MaxAgentID, " bytes")
}
