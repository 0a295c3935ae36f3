package openintent

import (
	"errors"
	"math"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// grants indexes an intent's access by the agents and roles that it names.
type grants struct {
	agents   map[agentKey]accessLevelEnds // of the entries for agents
	roles    map[agentKey]accessLevelEnds // of the entries for roles; the id is the role's
	assigned map[agentKey]int             // the index of an agent's assignment
	others   map[string]idHolders         // the other daemons that are named with an id
}

// accessLevelEnds says until when each level is given; 0: not at all.
type accessLevelEnds [levelAdmin + 1]chain.Time

// highestLevelAt returns the highest level that is given at a time.
func (u accessLevelEnds) highestLevelAt(at chain.Time) accessLevel {
	for l := levelAdmin; l > levelNone; l-- {
		if u[l] > at {
			return l
		}
	}
	return levelNone
}

// addAccessLevelEnd gives an agent or role a level until end; 0: for ever.
func addAccessLevelEnd(all map[agentKey]accessLevelEnds, who agentKey, l accessLevel, end chain.Time) {
	if end == 0 {
		end = math.MaxInt64
	}
	u := all[who]
	u[l] = max(u[l], end)
	all[who] = u
}

// indexGrants returns the grants of a.
func (a *access) indexGrants() grants {
	g := grants{make(map[agentKey]accessLevelEnds), make(map[agentKey]accessLevelEnds), make(map[agentKey]int), make(map[string]idHolders)}
	named := func(k agentKey, at chain.Time) {
		if k.home != "" {
			h := g.others[k.id]
			h.recordHolder(k.home, at)
			g.others[k.id] = h
		}
	}
	for _, p := range a.Entries {
		k := agentKey{p.Home, p.PrincipalID}
		if p.IsForRole() {
			addAccessLevelEnd(g.roles, k, parseAccessLevel(p.Permission), p.ExpiresAt)
			continue
		}
		addAccessLevelEnd(g.agents, k, parseAccessLevel(p.Permission), p.ExpiresAt)
		named(k, p.GrantedAt)
	}
	for i, s := range a.Assignments {
		k := agentKey{s.Home, s.AgentID}
		g.assigned[k] = i
		named(k, s.AssignedAt)
	}
	return g
}

// assignmentIndex returns the index of an agent's assignment, or -1.
func (in *intentRecord) assignmentIndex(k agentKey) int {
	if i, ok := in.grants.assigned[k]; ok {
		return i
	}
	return -1
}

// accessChange changes a, a copy of an intent's access. It returns the event to log, or nil if
// nothing changes. It may run more than once.
type accessChange func(in *intentRecord, a *access, at chain.Time) (*eventDraft, error)

// nextAccess is the access of an intent after a change.
type nextAccess struct {
	access
	of   int64       // changes of the record when the change was made
	text string      // for the store
	ev   *eventDraft // nil: nothing has changed
}

// errOutdated says that the access has changed since a change of it was prepared.
var errOutdated = errors.New("the access has changed")

// maxOutdated counts the attempts before a change is made inside of the write.
const maxOutdated = 3

// changeAccess makes a change of the intent's access. It does so outside of the write, which
// keeps the outcome only if the access has not changed meanwhile.
func (e *Engine) changeAccess(c *Call, id string, need accessLevel, change accessChange) error {
	err := errOutdated
	for tries := 0; err == errOutdated; tries++ {
		in, _, refused := e.findIntent(c, id, need)
		if refused != nil {
			return refused
		}
		var made nextAccess
		e.withReadLock(func() { made, refused = in.computeAccessChange(c, change, now()) })
		if refused == nil {
			refused = made.encodeForStore()
		}
		if refused != nil {
			return refused
		}
		err = e.writeIfAuthorized(c, in.id, need, func(t *tx, in *intentRecord) error {
			if made.of != in.changes {
				if tries < maxOutdated {
					return errOutdated
				}
				if made, err = in.computeAccessChange(c, change, t.now); err == nil {
					err = made.encodeForStore()
				}
				if err != nil {
					return err
				}
			}
			return t.storeAccess(in, &made)
		})
	}
	return err
}

// computeAccessChange runs change on a copy of the access. The world is read-locked, or this is a
// write.
func (in *intentRecord) computeAccessChange(c *Call, change accessChange, at chain.Time) (made nextAccess, err error) {
	made = nextAccess{access: in.access.clone(), of: in.changes}
	if made.ev, err = change(in, &made.access, at); err != nil || made.ev == nil {
		return made, err
	}
	made.ev.actor = c.Caller.name
	if len(made.Entries) > object.MaxEntries || len(made.Assignments) > object.MaxEntries {
		return made, object.NewTooManyError("entries", object.MaxEntries, "take some back")
	}
	return made, nil
}

// encodeForStore makes the text for the store and the canonical form of the event's payload.
func (m *nextAccess) encodeForStore() error {
	if m.ev == nil {
		return nil
	}
	if m.text = object.EncodeJSONText(m.access); len(m.text) > maxAccess {
		return object.NewError("too_large", "the access list would have %d bytes: at most %d are kept: give shorter reasons, or take entries back", len(m.text), maxAccess)
	}
	return m.ev.canonicalize()
}

// storeAccess makes a change the intent's access.
func (t *tx) storeAccess(in *intentRecord, made *nextAccess) error {
	if made.ev == nil {
		return nil
	}
	if err := t.execute("UPDATE openintent_intent SET access = ? WHERE row = ?", made.text, in.row); err != nil {
		return err
	}
	t.e.withLock(func() { t.setIntentAccess(in, made.access) })
	_, err := t.appendEventToLog(in, *made.ev)
	return err
}
