package openintent

import (
	"cmp"
	"slices"

	"github.com/acpd/acpd/openintent/chain"
)

// reserve notes that so many more grants, or fewer, name agents. The ids of those
// here are reserved on the intent as long as one does.
func (w *world) reserve(in *intent, agents []agentKey, more int) {
	for _, k := range agents {
		if k.home != "" {
			continue
		}
		if in.reserved[k.id] += more; in.reserved[k.id] == 0 {
			delete(in.reserved, k.id)
		}
	}
}

// granted are the agents that the access list and the assignments name.
func (a *access) granted() (all []agentKey) {
	for _, p := range a.Entries {
		if !p.role() {
			all = append(all, agentKey{p.Home, p.PrincipalID})
		}
	}
	for _, s := range a.Assignments {
		all = append(all, agentKey{s.Home, s.AgentID})
	}
	return all
}

// members are the agents that a channel names.
func (w *world) members(ch *channel) []agentKey {
	all := make([]agentKey, len(ch.doc.Members))
	for i, name := range ch.doc.Members {
		all[i] = w.key(name)
	}
	return all
}

// setAccess and setChannel change what grants agents something.
func (w *world) setAccess(in *intent, a access) {
	before, after, grants := in.granted(), a.granted(), a.index()
	w.reserve(in, before, -1)
	in.access, in.grants = a, grants
	in.changes++
	w.reserve(in, after, 1)
}

func (e *Engine) setChannel(ch *channel, doc Channel) []step {
	old, more := ch.doc, doc.size()-ch.doc.size()
	return []step{
		{func() { e.enlist(ch, -1) }, func() { e.enlist(ch, 1) }},
		{func() { e.count(doc.Home, 0, 0, more) }, func() { e.count(doc.Home, 0, 0, -more) }},
		{func() { ch.doc = doc }, func() { ch.doc = old }},
		{func() { e.enlist(ch, 1) }, func() { e.enlist(ch, -1) }},
	}
}

// enlist notes that there is one more channel with these members, or one less.
func (w *world) enlist(ch *channel, more int) {
	members := w.members(ch)
	for _, k := range members { // first, so that what is to be counted has its table
		if k.home != "" && w.listed[k.home] == nil {
			w.listed[k.home] = make(map[string]int)
		}
	}
	w.reserve(ch.in, members, more)
	for _, k := range members {
		if k.home == "" {
			continue
		}
		ids := w.listed[k.home]
		if ids[k.id] += more; ids[k.id] == 0 {
			delete(ids, k.id)
		}
	}
}

// here reports whether somebody here has the id: registered, or named or used on the
// intent, if there is one.
func (w *world) here(in *intent, id string) bool {
	if w.agents[agentKey{"", id}] != nil {
		return true
	}
	return in != nil && (in.reserved[id] > 0 || in.uses(agentKey{"", id}))
}

// openTo reports whether open intents are open to the agents of another daemon.
func (e *Engine) openTo(home string) bool {
	return home != "" && e.cfg.OpenTo != nil && e.cfg.OpenTo(home)
}

// holders are daemons, and since when an agent of theirs has an id on an intent.
type holders map[string]chain.Time

func (h *holders) add(home string, at chain.Time) {
	if *h == nil {
		*h = make(holders)
	}
	if since, ok := (*h)[home]; !ok || at < since {
		(*h)[home] = at
	}
}

// holders returns the daemons in open_to an agent of which has used the intent under
// the id, or is named there.
func (e *Engine) holders(in *intent, id string) (h holders) {
	for home, used := range in.used {
		if at, ok := used[id]; ok && home != "" && e.openTo(home) {
			h.add(home, at)
		}
	}
	for home, at := range in.grants.others[id] {
		if e.openTo(home) {
			h.add(home, at)
		}
	}
	return h
}

// isOpenTo reports whether the intent is open to an agent: to each one here, and to
// those of a daemon in open_to under ids that nobody here has, and no other such
// daemon has had before.
func (e *Engine) isOpenTo(in *intent, k agentKey) bool {
	if in.Policy != "open" || k.home == "" {
		return in.Policy == "open"
	}
	if !e.openTo(k.home) || e.here(in, k.id) {
		return false
	}
	all := e.holders(in, k.id)
	mine, ok := all[k.home]
	for home, at := range all {
		if home != k.home && (!ok || at < mine || at == mine && home < k.home) {
			return false
		}
	}
	return true
}

// uses reports whether the agent has used the intent.
func (in *intent) uses(k agentKey) bool {
	_, ok := in.used[k.home][k.id]
	return ok
}

// use notes that the agent has used the intent since then, or, with 0, has not.
func (in *intent) use(k agentKey, since chain.Time) {
	ids := in.used[k.home]
	if since == 0 {
		if delete(ids, k.id); len(ids) == 0 {
			delete(in.used, k.home)
		}
		return
	}
	if ids == nil {
		ids = make(map[string]chain.Time)
		in.used[k.home] = ids
	}
	ids[k.id] = since
}

// bind notes that who's agent uses the intent, the first time that it does.
func (t *tx) bind(in *intent, who Caller) error {
	k := agentKey{who.Home, who.Agent}
	if who.Operator || in.uses(k) {
		return nil
	}
	if err := in.roomFor(k.home); err != nil {
		return err
	}
	if err := t.insertUse(in, k); err != nil {
		return err
	}
	t.apply(step{func() { in.use(k, t.now) }, func() { in.use(k, 0) }})
	if who.Home == "" {
		return nil
	}
	// A kind that clients know: they read the log with a closed enumeration.
	_, err := t.log(in, event{kind: "access_granted", actor: who.name, payload: Members("agent_id", who.Agent, "home", who.Home)})
	return err
}

// roomFor refuses one more agent of a daemon. Those here have room of their own.
func (in *intent) roomFor(home string) error {
	const most = 10 * maxEntries
	others := 0
	for h, ids := range in.used {
		if h != "" && home != "" {
			others += len(ids)
		}
	}
	switch theirs := len(in.used[home]); {
	case home != "" && theirs >= maxEntries:
		return tooMany("agents of that daemon in this intent", maxEntries, "let the intent's owner free some ids")
	case max(theirs, others) >= most:
		return tooMany("agents of this intent", most, "let its owner free some ids")
	}
	return nil
}

// Home says where an agent that has used an intent is at home.
type Home struct {
	AgentID string `json:"agent_id"`
	Home    string `json:"home"` // "" is the intent's daemon
}

// ListHomes returns who has used the intent.
func (e *Engine) ListHomes(c *Call, intentID string) ([]Home, error) {
	in, err := e.glance(c, intentID)
	if err != nil {
		return nil, err
	}
	homes := []Home{}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for home, ids := range in.used {
		for id := range ids {
			homes = append(homes, Home{AgentID: id, Home: home})
		}
	}
	slices.SortFunc(homes, func(a, b Home) int { return cmp.Or(cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.Home, b.Home)) })
	return homes, nil
}

// FreeHome forgets that an agent has used the intent: the one that the id or name means,
// which without a home is one here if there is one.
func (e *Engine) FreeHome(c *Call, intentID, agent string) error {
	return e.writeIntent(c, intentID, levelAdmin, func(t *tx, in *intent) error {
		k, said, err := e.meant(in, "agent", agent, "")
		if err != nil {
			return err
		}
		if !said && !in.uses(k) {
			k.home = in.soleUse(k.id)
		}
		if !in.uses(k) {
			return notFound("agent on this intent, or there are several: name it with its home")
		}
		if err := t.deleteUse(in, k); err != nil {
			return err
		}
		since := in.used[k.home][k.id]
		t.apply(step{func() { in.use(k, 0) }, func() { in.use(k, since) }})
		_, err = t.log(in, event{kind: "access_revoked", actor: c.Caller.name, payload: atHome(k.home, "agent_id", k.id)})
		return err
	})
}

// soleUse returns the one daemon of which an agent has used the intent under the id.
func (in *intent) soleUse(id string) (home string) {
	for h, used := range in.used {
		if _, ok := used[id]; ok {
			if home != "" {
				return ""
			}
			home = h
		}
	}
	return home
}

// part counts what agents have of something, of which there is so much in one place:
// half of it is for the agents here, and a quarter the most that one other daemon's have.
type part struct{ all, others, theirs int }

// add counts one of a daemon's agents, as seen by who wants one more.
func (p *part) add(home, wants string) {
	p.all++
	if home != "" {
		p.others++
		if home == wants {
			p.theirs++
		}
	}
}

// room refuses one more to a daemon's agents that there is no room for.
func (p *part) room(home, what string, most int, remedy string) error {
	switch {
	case p.all >= most:
		return tooMany(what, most, remedy)
	case home != "" && p.theirs >= most/4:
		return tooMany(what+", of your daemon's agents", most/4, remedy)
	case home != "" && p.others >= most/2:
		return tooMany(what+", of other daemons' agents", most/2, remedy)
	}
	return nil
}
