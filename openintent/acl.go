package openintent

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// ACL is an intent's access list as it is answered.
type ACL struct {
	IntentID string  `json:"intent_id"`
	Default  string  `json:"default_policy"` // open or closed
	Policy   string  `json:"policy"`         // what was set
	Entries  []Entry `json:"entries"`
}

func (in *intent) acl() ACL {
	return ACL{IntentID: in.id, Default: shownPolicy(in.Policy), Policy: in.Policy, Entries: append([]Entry{}, in.Entries...)}
}

// shownPolicy is a policy as the SDK knows it: all but open close an intent.
func shownPolicy(policy string) string {
	if policy == "open" {
		return policy
	}
	return "closed"
}

func (e *Engine) getACL(c *call) (int, any, error) {
	return e.view(c, func(in *intent) any { return in.acl() })
}

// setACL is an access list as it is set: an ACL as it was answered may be sent again.
type setACL struct {
	IntentID jsontext.Value `json:"intent_id,omitzero"` // as answered; it says nothing
	Default  string         `json:"default_policy"`
	Policy   string         `json:"policy,omitzero"` // where both are given, this one counts
	Entries  []grantEntry   `json:"entries"`
}

// policy returns the policy that is asked for. None at all is refused: access is never
// what nobody has said.
func (s *setACL) policy() (string, error) {
	field, policy := "policy", s.Policy
	if policy == "" {
		field, policy = "default_policy", s.Default
	}
	if !slices.Contains(policies, policy) {
		return "", invalid(field, "nothing was changed: say who is let in, one of %s", strings.Join(policies, ", "))
	}
	if s.Default != "" && s.Default != policy && s.Default != shownPolicy(policy) {
		return "", invalid("default_policy", "nothing was changed: policy says something else: leave one of them out")
	}
	return policy, nil
}

type grantEntry struct {
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

func (c *call) entry(in *intent, g grantEntry, at chain.Time) (Entry, error) {
	if g.PrincipalType == "" {
		g.PrincipalType = "agent"
	}
	if g.Permission == "" {
		g.Permission = "read"
	}
	switch {
	case !slices.Contains([]string{"agent", "user", "role", "group"}, g.PrincipalType):
		return Entry{}, invalid("principal_type", "one of agent, user, role, group")
	case !validName(g.PrincipalID):
		return Entry{}, invalid("principal_id", "an id of an agent or a role is needed")
	case levels[g.Permission] == levelNone:
		return Entry{}, invalid("permission", "one of read, write, admin")
	case g.Reason != nil && len(*g.Reason) > 4096:
		return Entry{}, invalid("reason", "at most 4096 bytes")
	}
	p := Entry{
		ID: c.e.newID(idEntry, at), PrincipalType: g.PrincipalType, Permission: g.Permission,
		GrantedBy: c.who.name, GrantedAt: at, ExpiresAt: g.ExpiresAt, Reason: g.Reason,
	}
	var k agentKey
	var err error
	if p.role() {
		k, _, err = c.e.meant(nil, "principal_id", g.PrincipalID, g.Home)
	} else {
		k, err = c.grantee(in, "principal_id", g.PrincipalID, g.Home)
	}
	p.PrincipalID, p.Home = k.id, k.home
	return p, err
}

func (e *Engine) putACL(c *call) (int, any, error) {
	var body setACL
	if err := c.decodeStrictly(&body); err != nil {
		return 0, nil, err
	}
	policy, err := body.policy()
	if err != nil {
		return 0, nil, err
	}
	if len(body.Entries) > maxEntries {
		return 0, nil, invalid("entries", "at most %d", maxEntries)
	}
	var acl ACL
	err = e.changeAccess(c, levelAdmin, func(in *intent, a *access, at chain.Time) (*event, error) {
		a.Policy, a.Entries = policy, nil
		for _, g := range body.Entries {
			p, err := c.entry(in, g, at)
			if err != nil {
				return nil, err
			}
			a.Entries = append(a.Entries, p)
		}
		acl = (&intent{id: in.id, access: *a}).acl()
		return &event{kind: "access_granted", payload: members("default_policy", policy, "entries", a.Entries)}, nil
	})
	return http.StatusOK, acl, err
}

func (e *Engine) addEntry(c *call) (int, any, error) {
	var body grantEntry
	if err := c.decodeStrictly(&body); err != nil {
		return 0, nil, err
	}
	var p Entry
	err := e.changeAccess(c, levelAdmin, func(in *intent, a *access, at chain.Time) (*event, error) {
		var err error
		if p, err = c.entry(in, body, at); err != nil {
			return nil, err
		}
		a.Entries = append(a.Entries, p)
		return &event{kind: "access_granted", payload: atHome(p.Home, "entry_id", p.ID, "principal_id", p.PrincipalID, "principal_type", p.PrincipalType, "permission", p.Permission)}, nil
	})
	return http.StatusCreated, p, err
}

func (e *Engine) dropEntry(c *call) (int, any, error) {
	err := e.changeAccess(c, levelAdmin, func(_ *intent, a *access, _ chain.Time) (*event, error) {
		i := slices.IndexFunc(a.Entries, func(p Entry) bool { return p.ID == c.arg(1) })
		if i < 0 {
			return nil, notFound("entry")
		}
		p := a.Entries[i]
		a.Entries = slices.Delete(a.Entries, i, i+1)
		return &event{kind: "access_revoked", payload: atHome(p.Home, "entry_id", p.ID, "principal_id", p.PrincipalID, "permission", p.Permission)}, nil
	})
	return http.StatusNoContent, nil, err
}
