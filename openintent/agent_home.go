package openintent

import (
	"cmp"
	"sort"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// adjustReservedIDs notes that more grants, or fewer, name agents. As long as a grant names an agent
// here, the agent's id is reserved on the intent.
func (t *tx) adjustReservedIDs(in *intentRecord, agents []agentKey, more int) {
	for _, k := range agents {
		if k.home != "" {
			continue
		}
		keepEntry(t, in.reserved, k.id)
		if in.reserved[k.id] += more; in.reserved[k.id] == 0 {
			delete(in.reserved, k.id)
		}
	}
}

// grantees returns the agents that the access list and the assignments name.
func (a *access) grantees() (all []agentKey) {
	for _, p := range a.Entries {
		if !p.IsForRole() {
			all = append(all, agentKey{p.Home, p.PrincipalID})
		}
	}
	for _, s := range a.Assignments {
		all = append(all, agentKey{s.Home, s.AgentID})
	}
	return all
}

// memberKeys returns the agents that are members of a channel.
func (w *world) memberKeys(ch *channelRecord) []agentKey {
	all := make([]agentKey, len(ch.doc.Members))
	for i, name := range ch.doc.Members {
		all[i] = w.agentKeyOf(name)
	}
	return all
}

// setIntentAccess makes a the access of the intent.
func (t *tx) setIntentAccess(in *intentRecord, a access) {
	t.adjustReservedIDs(in, in.grantees(), -1)
	set(t, &in.access, a)
	set(t, &in.grants, a.indexGrants())
	t.e.accessChanges++ // and never back: a change that was made of a lost access is outdated
	set(t, &in.changes, t.e.accessChanges)
	t.adjustReservedIDs(in, a.grantees(), 1)
}

// setChannelDoc makes doc the channel's object. The world is locked.
func (t *tx) setChannelDoc(ch *channelRecord, doc object.Channel) {
	t.adjustMemberCounts(ch, -1)
	t.adjustCreatedCounts(doc.Home, 0, 0, doc.Size()-ch.doc.Size())
	set(t, &ch.doc, doc)
	t.adjustMemberCounts(ch, 1)
}

// adjustMemberCounts notes that there is one more channel with these members, or one less.
func (t *tx) adjustMemberCounts(ch *channelRecord, more int) {
	members := t.e.memberKeys(ch)
	t.adjustReservedIDs(ch.in, members, more)
	for _, k := range members {
		if k.home == "" {
			continue
		}
		ids := t.e.listed[k.home]
		if ids == nil {
			ids = make(map[string]int)
			t.e.listed[k.home] = ids
		}
		keepEntry(t, ids, k.id)
		if ids[k.id] += more; ids[k.id] == 0 {
			delete(ids, k.id)
		}
	}
}

// isAgentIDUsedHere reports whether an agent here has the id: it is registered, or, if there is an
// intent, a grant of the intent names it or it has used the intent.
func (w *world) isAgentIDUsedHere(in *intentRecord, id string) bool {
	if w.agents[agentKey{"", id}] != nil {
		return true
	}
	return in != nil && (in.reserved[id] > 0 || in.wasUsedBy(agentKey{"", id}))
}

// isOpenToHome reports whether open intents are open to the agents of another daemon.
func (w *world) isOpenToHome(home string) bool {
	return home != "" && w.cfg.OpenTo != nil && w.cfg.OpenTo(home)
}

// idHolders says since when an agent of each daemon has a certain id on an intent.
type idHolders map[string]chain.Time

// recordHolder notes that an agent of home has had the id since then.
func (h *idHolders) recordHolder(home string, at chain.Time) {
	if *h == nil {
		*h = make(idHolders)
	}
	if since, ok := (*h)[home]; !ok || at < since {
		(*h)[home] = at
	}
}

// findIDHolders returns the daemons in open_to that have an agent with the id that has used the
// intent or is named there.
func (w *world) findIDHolders(in *intentRecord, id string) (h idHolders) {
	for home, used := range in.used {
		if at, ok := used[id]; ok && home != "" && w.isOpenToHome(home) {
			h.recordHolder(home, at)
		}
	}
	for home, at := range in.grants.others[id] {
		if w.isOpenToHome(home) {
			h.recordHolder(home, at)
		}
	}
	return h
}

// isIntentOpenTo reports whether the intent is open to an agent. An open intent is open to
// every agent here, and to the agents of daemons in open_to whose ids no agent here has, and
// no agent of another such daemon had before.
func (w *world) isIntentOpenTo(in *intentRecord, k agentKey) bool {
	if in.Policy != "open" || k.home == "" {
		return in.Policy == "open"
	}
	if !w.isOpenToHome(k.home) || w.isAgentIDUsedHere(in, k.id) {
		return false
	}
	all := w.findIDHolders(in, k.id)
	mine, ok := all[k.home]
	for home, at := range all {
		if home != k.home && (!ok || at < mine || at == mine && home < k.home) {
			return false
		}
	}
	return true
}

// wasUsedBy reports whether the agent has used the intent.
func (in *intentRecord) wasUsedBy(k agentKey) bool {
	_, ok := in.used[k.home][k.id]
	return ok
}

// setFirstUse notes that the agent has used the intent since then, or, if since is 0, never.
func (t *tx) setFirstUse(in *intentRecord, k agentKey, since chain.Time) {
	ids := in.used[k.home]
	if ids != nil {
		keepEntry(t, ids, k.id)
	}
	keepEntry(t, in.used, k.home)
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

// recordFirstUse records in the store and the world that an agent uses the intent for the first
// time. It does nothing if the agent has used it before.
func (t *tx) recordFirstUse(in *intentRecord, who Caller) error {
	k := agentKey{who.Home, who.Agent}
	if who.Operator || in.wasUsedBy(k) {
		return nil
	}
	if err := in.checkRoomForUser(k.home); err != nil {
		return err
	}
	if err := t.insertFirstUse(in, k); err != nil {
		return err
	}
	t.e.withLock(func() { t.setFirstUse(in, k, t.now) })
	if who.Home == "" {
		return nil
	}
	// A kind that clients know: they read the log with a closed enumeration.
	_, err := t.appendEventToLog(in, eventDraft{kind: "access_granted", actor: who.name, payload: object.EncodeJSONObject("agent_id", who.Agent, "home", who.Home)})
	return err
}

// checkRoomForUser refuses one more agent of a daemon as a user of the intent. Agents here have
// room of their own.
func (in *intentRecord) checkRoomForUser(home string) error {
	const most = 10 * object.MaxEntries
	others := 0
	for h, ids := range in.used {
		if h != "" && home != "" {
			others += len(ids)
		}
	}
	switch theirs := len(in.used[home]); {
	case home != "" && theirs >= object.MaxEntries:
		return object.NewTooManyError("agents of that daemon in this intent", object.MaxEntries, "let the intent's owner free some ids")
	case max(theirs, others) >= most:
		return object.NewTooManyError("agents of this intent", most, "let its owner free some ids")
	}
	return nil
}

// ListIntentUsers returns the agents that have used the intent.
func (e *Engine) ListIntentUsers(c *Call, intentID string) ([]object.Home, error) {
	in, err := e.findIntentForList(c, intentID)
	if err != nil {
		return nil, err
	}
	homes := []object.Home{}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for home, ids := range in.used {
		for id := range ids {
			homes = append(homes, object.Home{AgentID: id, Home: home})
		}
	}
	sort.Slice(homes, func(i, j int) bool {
		a, b := &homes[i], &homes[j]
		return cmp.Or(cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.Home, b.Home)) < 0
	})
	return homes, nil
}

// ForgetIntentUser forgets that an agent, called by its id or name, has used the intent. An id
// without a home means the agent here, if there is one.
func (e *Engine) ForgetIntentUser(c *Call, intentID, agent string) error {
	return e.writeIfAuthorized(c, intentID, levelAdmin, func(t *tx, in *intentRecord) error {
		k, said, err := e.resolveAgent(in, "agent", agent, "")
		if err != nil {
			return err
		}
		if !said && !in.wasUsedBy(k) {
			k.home = in.soleHomeUsingID(k.id)
		}
		if !in.wasUsedBy(k) {
			return object.NewNotFoundError("agent on this intent, or there are several: name it with its home")
		}
		if err := t.execute("DELETE FROM openintent_used WHERE intent = ? AND home = ? AND id = ?", in.row, k.home, k.id); err != nil {
			return err
		}
		e.withLock(func() { t.setFirstUse(in, k, 0) })
		_, err = t.appendEventToLog(in, eventDraft{kind: "access_revoked", actor: c.Caller.name, payload: object.EncodeJSONObjectWithHome(k.home, "agent_id", k.id)})
		return err
	})
}

// soleHomeUsingID returns the daemon of the agent that has used the intent under the id, and ""
// if there are several.
func (in *intentRecord) soleHomeUsingID(id string) (home string) {
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

// insertFirstUse writes to the store that an agent has used the intent.
func (t *tx) insertFirstUse(in *intentRecord, k agentKey) error {
	return t.execute("INSERT INTO openintent_used (intent, home, id, at) VALUES (?, ?, ?, ?)", in.row, k.home, k.id, int64(t.now))
}
