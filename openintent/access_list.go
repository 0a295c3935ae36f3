package openintent

import (
	"slices"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// accessList returns the access list as it is answered.
func (in *intentRecord) accessList() object.ACL { return object.NewACL(in.id, in.Policy, in.Entries) }

// GetACL returns the access list of the intent.
func (e *Engine) GetACL(c *Call, intentID string) (object.ACL, error) {
	return viewIntent(e, c, intentID, nil, func(in *intentRecord) object.ACL { return in.accessList() })
}

// newACLEntry makes an entry of the access list that the caller grants.
func (c *Call) newACLEntry(in *intentRecord, g object.GrantEntry, at chain.Time) (object.Entry, error) {
	if err := g.Check(); err != nil {
		return object.Entry{}, err
	}
	p := object.Entry{
		ID: c.e.newID(object.IDEntry, at), PrincipalType: g.PrincipalType, Permission: g.Permission,
		GrantedBy: c.Caller.name, GrantedAt: at, ExpiresAt: g.ExpiresAt, Reason: g.Reason,
	}
	var k agentKey
	var err error
	if p.IsForRole() {
		k, _, err = c.e.resolveAgent(nil, "principal_id", g.PrincipalID, g.Home)
	} else {
		k, err = c.resolveGrantee(in, "principal_id", g.PrincipalID, g.Home)
	}
	p.PrincipalID, p.Home = k.id, k.home
	return p, err
}

// SetACL replaces the access list of the intent.
func (e *Engine) SetACL(c *Call, intentID string, want *object.SetACL) (acl object.ACL, err error) {
	policy, err := want.RequestedPolicy()
	if err != nil {
		return acl, err
	}
	if len(want.Entries) > object.MaxEntries {
		return acl, object.NewFieldError("entries", "at most %d", object.MaxEntries)
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
		acl = object.NewACL(in.id, a.Policy, a.Entries)
		return &eventDraft{kind: "access_granted", payload: object.EncodeJSONObject("default_policy", policy, "entries", a.Entries)}, nil
	})
	return acl, err
}

// GrantAccess adds an entry to the access list of the intent.
func (e *Engine) GrantAccess(c *Call, intentID string, want *object.GrantEntry) (p object.Entry, err error) {
	err = e.changeAccess(c, intentID, levelAdmin, func(in *intentRecord, a *access, at chain.Time) (*eventDraft, error) {
		var err error
		if p, err = c.newACLEntry(in, *want, at); err != nil {
			return nil, err
		}
		a.Entries = append(a.Entries, p)
		return &eventDraft{kind: "access_granted", payload: object.EncodeJSONObjectWithHome(p.Home, "entry_id", p.ID, "principal_id", p.PrincipalID, "principal_type", p.PrincipalType, "permission", p.Permission)}, nil
	})
	return p, err
}

// RevokeAccess removes an entry from the access list of the intent.
func (e *Engine) RevokeAccess(c *Call, intentID, entryID string) error {
	return e.changeAccess(c, intentID, levelAdmin, func(_ *intentRecord, a *access, _ chain.Time) (*eventDraft, error) {
		i := slices.IndexFunc(a.Entries, func(p object.Entry) bool { return p.ID == entryID })
		if i < 0 {
			return nil, object.NewNotFoundError("entry")
		}
		p := a.Entries[i]
		a.Entries = slices.Delete(a.Entries, i, i+1)
		return &eventDraft{kind: "access_revoked", payload: object.EncodeJSONObjectWithHome(p.Home, "entry_id", p.ID, "principal_id", p.PrincipalID, "permission", p.Permission)}, nil
	})
}
