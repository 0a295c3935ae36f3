package openintent

import (
	"errors"
	"math"

	"github.com/acpd/acpd/openintent/chain"
)

// grants are what an intent's access says, by those of whom it says it.
type grants struct {
	agents   map[agentKey]until // what entries for agents give
	roles    map[agentKey]until // and those for roles; the id is the role's
	assigned map[agentKey]int   // where among the assignments that of an agent is
	others   map[string]holders // the other daemons that are named with an id
}

// until says of each level until when it is given; 0: not at all.
type until [levelAdmin + 1]chain.Time

// level is the highest level that is given then.
func (u until) level(at chain.Time) level {
	for l := levelAdmin; l > levelNone; l-- {
		if u[l] > at {
			return l
		}
	}
	return levelNone
}

// give gives who the level until then; 0: for ever.
func give(all map[agentKey]until, who agentKey, l level, end chain.Time) {
	if end == 0 {
		end = math.MaxInt64
	}
	u := all[who]
	u[l] = max(u[l], end)
	all[who] = u
}

// index returns the grants of a.
func (a *access) index() grants {
	g := grants{make(map[agentKey]until), make(map[agentKey]until), make(map[agentKey]int), make(map[string]holders)}
	named := func(k agentKey, at chain.Time) {
		if k.home != "" {
			h := g.others[k.id]
			h.add(k.home, at)
			g.others[k.id] = h
		}
	}
	for _, p := range a.Entries {
		k := agentKey{p.Home, p.PrincipalID}
		if p.role() {
			give(g.roles, k, levels[p.Permission], p.ExpiresAt)
			continue
		}
		give(g.agents, k, levels[p.Permission], p.ExpiresAt)
		named(k, p.GrantedAt)
	}
	for i, s := range a.Assignments {
		k := agentKey{s.Home, s.AgentID}
		g.assigned[k] = i
		named(k, s.AssignedAt)
	}
	return g
}

// assignment returns where among the assignments that of an agent is, -1 if it has none.
func (in *intent) assignment(k agentKey) int {
	if i, ok := in.grants.assigned[k]; ok {
		return i
	}
	return -1
}

// accessChange lets a request have a copy of an intent's access, as it is then. It
// returns the event to log, or nil where nothing changes. It may run more than once.
type accessChange func(in *intent, a *access, at chain.Time) (*event, error)

// changed is the access of an intent as a change has left it.
type changed struct {
	access
	of   int64  // which access it was made of
	text string // for the store
	ev   *event // nil: nothing has changed
}

// errOutdated is the error of a change to what has changed meanwhile.
var errOutdated = errors.New("the access has changed")

// maxOutdated is how often a change is made anew, until it is made inside of the write.
const maxOutdated = 3

// changeAccess makes a change of the intent's access: outside of the write, which keeps
// its outcome only if the access is still the one that it was made of.
func (e *Engine) changeAccess(c *Call, id string, need level, change accessChange) error {
	err := errOutdated
	for tries := 0; err == errOutdated; tries++ {
		in, _, refused := e.look(c, id, need)
		if refused != nil {
			return refused
		}
		var made changed
		e.rlocked(func() { made, refused = in.changed(c, change, now()) })
		if refused == nil {
			refused = made.encode()
		}
		if refused != nil {
			return refused
		}
		err = e.writeIntent(c, in.id, need, func(t *tx, in *intent) error {
			if made.of != in.changes {
				if tries < maxOutdated {
					return errOutdated
				}
				if made, err = in.changed(c, change, t.now); err == nil {
					err = made.encode()
				}
				if err != nil {
					return err
				}
			}
			return t.keepAccess(in, &made)
		})
	}
	return err
}

// changed lets change have a copy of the access. The world is read-locked, or the caller
// is a write.
func (in *intent) changed(c *Call, change accessChange, at chain.Time) (made changed, err error) {
	made = changed{access: in.access.clone(), of: in.changes}
	if made.ev, err = change(in, &made.access, at); err != nil || made.ev == nil {
		return made, err
	}
	made.ev.actor = c.Caller.name
	if len(made.Entries) > maxEntries || len(made.Assignments) > maxEntries {
		return made, tooMany("entries", maxEntries, "take some back")
	}
	return made, nil
}

// encode makes what the store gets of a change.
func (m *changed) encode() error {
	if m.ev == nil {
		return nil
	}
	if m.text = text(m.access); len(m.text) > maxAccess {
		return Refuse("too_large", "the access list would have %d bytes: at most %d are kept: give shorter reasons, or take entries back", len(m.text), maxAccess)
	}
	return m.ev.prepare()
}

// keepAccess makes a change the intent's access.
func (t *tx) keepAccess(in *intent, made *changed) error {
	if made.ev == nil {
		return nil
	}
	if err := t.saveAccess(in, made.text); err != nil {
		return err
	}
	old := in.access
	t.apply(step{func() { t.e.setAccess(in, made.access) }, func() { t.e.setAccess(in, old) }})
	_, err := t.log(in, *made.ev)
	return err
}
