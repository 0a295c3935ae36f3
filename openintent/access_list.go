package openintent

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// ACL is an intent's access list as it is answered.
type ACL struct {
	IntentID string  `json:"intent_id"`
	Default  string  `json:"default_policy"` // open or closed
	Policy   string  `json:"policy"`         // as it was set
	Entries  []Entry `json:"entries"`
}

// accessList returns the access list as it is answered.
func (in *intentRecord) accessList() ACL {
	return ACL{IntentID: in.id, Default: policyForSDK(in.Policy), Policy: in.Policy, Entries: append([]Entry{}, in.Entries...)}
}

// policyForSDK returns a policy as the SDK knows it: all but open are closed.
func policyForSDK(policy string) string {
	if policy == "open" {
		return policy
	}
	return "closed"
}

// GetACL returns the access list of the intent.
func (e *Engine) GetACL(c *Call, intentID string) (ACL, error) {
	return viewIntent(e, c, intentID, nil, func(in *intentRecord) ACL { return in.accessList() })
}

// SetACL is an access list as it is set: an ACL as it was answered may be sent again.
type SetACL struct {
	IntentID jsontext.Value `json:"intent_id,omitzero"` // as answered; it says nothing
	Default  string         `json:"default_policy"`
	Policy   string         `json:"policy,omitzero"` // if both are given, this one is used
	Entries  []GrantEntry   `json:"entries"`
}

// requestedPolicy returns the policy that is asked for. A request without one is refused, so that
// access never follows from silence.
func (s *SetACL) requestedPolicy() (string, error) {
	field, policy := "policy", s.Policy
	if policy == "" {
		field, policy = "default_policy", s.Default
	}
	if !slices.Contains(policies, policy) {
		return "", NewFieldError(field, "nothing was changed: say who is let in, one of %s", strings.Join(policies, ", "))
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

// newACLEntry makes an entry of the access list that the caller grants.
func (c *Call) newACLEntry(in *intentRecord, g GrantEntry, at chain.Time) (Entry, error) {
	if g.PrincipalType == "" {
		g.PrincipalType = "agent"
	}
	if g.Permission == "" {
		g.Permission = "read"
	}
	switch {
	case !slices.Contains([]string{"agent", "user", "role", "group"}, g.PrincipalType):
		return Entry{}, NewFieldError("principal_type", "one of agent, user, role, group")
	case !isValidAgentName(g.PrincipalID):
		return Entry{}, NewFieldError("principal_id", "an id of an agent or a role is needed")
	case parseAccessLevel(g.Permission) == levelNone:
		return Entry{}, NewFieldError("permission", "one of read, write, admin")
	case g.Reason != nil && len(*g.Reason) > 4096:
		return Entry{}, NewFieldError("reason", "at most 4096 bytes")
	}
	p := Entry{
		ID: c.e.newID(idEntry, at), PrincipalType: g.PrincipalType, Permission: g.Permission,
		GrantedBy: c.Caller.name, GrantedAt: at, ExpiresAt: g.ExpiresAt, Reason: g.Reason,
	}
	var k agentKey
	var err error
	if p.isForRole() {
		k, _, err = c.e.resolveAgent(nil, "principal_id", g.PrincipalID, g.Home)
	} else {
		k, err = c.resolveGrantee(in, "principal_id", g.PrincipalID, g.Home)
	}
	p.PrincipalID, p.Home = k.id, k.home
	return p, err
}

// SetACL replaces the access list of the intent.
func (e *Engine) SetACL(c *Call, intentID string, want *SetACL) (acl ACL, err error) {
	policy, err := want.requestedPolicy()
	if err != nil {
		return acl, err
	}
	if len(want.Entries) > maxEntries {
		return acl, NewFieldError("entries", "at most %d", maxEntries)
	}
	err = e.changeAccess(c, intentID, levelAdmin, func(in *intentRecord, a *access, at chain.Time) (*eventDraft, error) {
		a.Policy, a.Entries = policy, nil
		for _, g := range want.Entries {
			p, err := c.newACLEntry(in, g, at)
			if err != nil {
				return nil, err
			}
			a.Entries = append(a.Entries, p)
		}
		acl = (&intentRecord{id: in.id, access: *a}).accessList()
		return &eventDraft{kind: "access_granted", payload: EncodeJSONObject("default_policy", policy, "entries", a.Entries)}, nil
	})
	return acl, err
}

// GrantAccess adds an entry to the access list of the intent.
func (e *Engine) GrantAccess(c *Call, intentID string, want *GrantEntry) (p Entry, err error) {
	err = e.changeAccess(c, intentID, levelAdmin, func(in *intentRecord, a *access, at chain.Time) (*eventDraft, error) {
		var err error
		if p, err = c.newACLEntry(in, *want, at); err != nil {
			return nil, err
		}
		a.Entries = append(a.Entries, p)
		return &eventDraft{kind: "access_granted", payload: encodeJSONObjectWithHome(p.Home, "entry_id", p.ID, "principal_id", p.PrincipalID, "principal_type", p.PrincipalType, "permission", p.Permission)}, nil
	})
	return p, err
}

// RevokeAccess removes an entry from the access list of the intent.
func (e *Engine) RevokeAccess(c *Call, intentID, entryID string) error {
	return e.changeAccess(c, intentID, levelAdmin, func(_ *intentRecord, a *access, _ chain.Time) (*eventDraft, error) {
		i := slices.IndexFunc(a.Entries, func(p Entry) bool { return p.ID == entryID })
		if i < 0 {
			return nil, newNotFoundError("entry")
		}
		p := a.Entries[i]
		a.Entries = slices.Delete(a.Entries, i, i+1)
		return &eventDraft{kind: "access_revoked", payload: encodeJSONObjectWithHome(p.Home, "entry_id", p.ID, "principal_id", p.PrincipalID, "permission", p.Permission)}, nil
	})
}
