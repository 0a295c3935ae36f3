package openintent

import (
	"slices"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// accessLevel says how much an agent may do with an intent.
type accessLevel int

const (
	levelNone  accessLevel = iota
	levelRead              // see it; take part in its channels
	levelWrite             // change it; create channels
	levelAdmin             // decide who may do what
)

var levelNames = []string{levelNone: "no", levelRead: "read", levelWrite: "write", levelAdmin: "admin"}

// parseAccessLevel returns the level with a name, or levelNone.
func parseAccessLevel(name string) accessLevel {
	return accessLevel(max(slices.Index(levelNames, name), 0))
}

// access says who may do what with an intent.
type access struct {
	Policy      string              `json:"policy"`
	Entries     []object.Entry      `json:"entries"`
	Assignments []object.Assignment `json:"assignments"`
}

const maxAccess = 1 << 20 // bytes of it

// clone copies a so that its lists can be changed.
func (a access) clone() access {
	a.Entries, a.Assignments = slices.Clone(a.Entries), slices.Clone(a.Assignments)
	return a
}

// callerAccessLevel returns the level of a caller. The world is read-locked, or this is a write.
func (w *world) callerAccessLevel(in *intentRecord, who Caller, at chain.Time) accessLevel {
	if who.Operator {
		return levelAdmin
	}
	return w.agentAccessLevel(in, agentKey{who.Home, who.Agent}, at)
}

// agentAccessLevel returns the level of an agent. A grant is for agents of the home that it
// names. A grant without a home is for agents here.
func (w *world) agentAccessLevel(in *intentRecord, k agentKey, at chain.Time) accessLevel {
	if k.home == "" && k.id == in.creator {
		return levelAdmin
	}
	l := in.grants.agents[k].highestLevelAt(at)
	if _, assigned := in.grants.assigned[k]; assigned || l < levelWrite && w.isIntentOpenTo(in, k) {
		l = max(l, levelWrite)
	}
	if len(in.grants.roles) > 0 {
		if role := w.liveRoleOf(k, at); role != "" {
			l = max(l, in.grants.roles[agentKey{k.home, role}].highestLevelAt(at))
		}
	}
	return l
}

// agentHasRole reports whether the agent has the role on the intent. An agent of another daemon has
// it only if the access list gives that daemon the role.
func (w *world) agentHasRole(in *intentRecord, k agentKey, role string, at chain.Time) bool {
	return w.liveRoleOf(k, at) == role && (k.home == "" || in.grants.roles[agentKey{k.home, role}].highestLevelAt(at) > levelNone)
}

// findIntentAndRecordUse finds an intent for which the caller has a level, and records that the
// caller's agent uses it. For a caller without any level, the intent does not exist.
func (e *Engine) findIntentAndRecordUse(c *Call, id string, need accessLevel) (*intentRecord, error) {
	in, firstUse, err := e.findIntent(c, id, need)
	if err != nil || !firstUse {
		return in, err
	}
	return in, e.recordFirstUse(c, in)
}

// findIntentForList is findIntentAndRecordUse for lists that show what a caller may use. An agent
// here does not use the intent by that, and so takes its id from no agent elsewhere. An agent of
// another daemon does, and can be sent messages from then on.
func (e *Engine) findIntentForList(c *Call, id string) (*intentRecord, error) {
	if c.Caller.Home != "" {
		return e.findIntentAndRecordUse(c, id, levelRead)
	}
	in, _, err := e.findIntent(c, id, levelRead)
	return in, err
}

// findIntent finds an intent for which the caller has a level. firstUse reports that the
// caller's agent has not used the intent before. Then the caller of findIntent notes that.
func (e *Engine) findIntent(c *Call, id string, need accessLevel) (in *intentRecord, firstUse bool, err error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.authorizeForIntent(id, c.Caller, need, now())
}

// recordFirstUse records in a write of its own that the caller's agent uses the intent. Nothing is
// written for an agent of another daemon if there is no room on the disk.
func (e *Engine) recordFirstUse(c *Call, in *intentRecord) error {
	if e.CheckDiskRoom(c.Caller.Home) != nil {
		return nil
	}
	return e.runTransaction(c.Context(), false, func(t *tx) error {
		in := t.e.intents[in.id]
		if t.checkDiskShare(in, c.Caller, headRoom) != nil {
			return nil
		}
		return t.recordFirstUse(in, c.Caller)
	})
}

// authorizeForIntent refuses a caller that lacks the level for an intent. firstUse reports that the
// caller's agent has not used the intent before. The world is read-locked, or this is a write.
func (w *world) authorizeForIntent(id string, who Caller, need accessLevel, at chain.Time) (in *intentRecord, firstUse bool, err error) {
	if in = w.intents[id]; in == nil {
		return nil, false, object.NewNotFoundError("intent")
	}
	have := w.callerAccessLevel(in, who, at)
	switch {
	case have == levelNone && in.Policy == "open" && w.isOpenToHome(who.Home):
		return nil, false, object.NewError("agent_homed_elsewhere",
			"another daemon has this agent id here: choose another id, or let the intent's owner grant access to yours, with its home")
	case have == levelNone:
		return nil, false, object.NewNotFoundError("intent")
	case have < need:
		return nil, false, object.NewError("no_permission", "this needs %s access to the intent: ask its creator", levelNames[need])
	}
	return in, !who.Operator && !in.wasUsedBy(agentKey{who.Home, who.Agent}), nil
}

// authorizeForIntent is [world.authorizeForIntent] for a write that will record a first use. It
// refuses a first use for which there is no room, before anything is changed.
func (t *tx) authorizeForIntent(id string, who Caller, need accessLevel) (in *intentRecord, firstUse bool, err error) {
	if in, firstUse, err = t.e.authorizeForIntent(id, who, need, t.now); firstUse {
		err = in.checkRoomForUser(who.Home)
	}
	return in, firstUse, err
}

// writeIfAuthorized runs fn in a write, if the caller has the level for the intent, and records that
// the caller's agent uses the intent.
func (e *Engine) writeIfAuthorized(c *Call, id string, need accessLevel, fn func(*tx, *intentRecord) error) error {
	return e.runTransaction(c.Context(), false, func(t *tx) error {
		in, firstUse, err := t.authorizeForIntent(id, c.Caller, need)
		if err != nil {
			return err
		}
		if !c.Removes {
			if err := t.checkDiskShare(in, c.Caller, c.Size+headRoom); err != nil {
				return err
			}
		}
		if err := fn(t, in); err != nil || !firstUse {
			return err
		}
		return t.recordFirstUse(in, c.Caller)
	})
}

// isCoordinator reports whether the caller is a coordinator of the intent: an operator, an
// agent assigned as one, or an agent that an admin has appointed.
func (w *world) isCoordinator(in *intentRecord, who Caller, at chain.Time) bool {
	if who.Operator {
		return true
	}
	if i := in.assignmentIndex(agentKey{who.Home, who.Agent}); i >= 0 && in.Assignments[i].Role == object.RoleCoordinator {
		return true
	}
	for _, co := range in.coords {
		if co.doc.AgentID == who.Agent && co.doc.Home == who.Home && co.isLive(at) {
			return true
		}
	}
	return false
}

// authorizeChannelReader decides who may read a channel. It refuses a caller that may not read the
// intent, or may not see the channel's messages. The world is read-locked, or this is a write.
func (w *world) authorizeChannelReader(ch *channelRecord, who Caller) error {
	if _, _, err := w.authorizeForIntent(ch.in.id, who, levelRead, now()); err != nil {
		return object.ReplaceIntentNotFound(err, "channel")
	}
	return ch.checkReader(who)
}

// checkReader refuses a caller that may read the intent, but not the channel's messages.
func (ch *channelRecord) checkReader(who Caller) error {
	if who.Operator {
		return nil
	}
	return ch.checkMember(who.name)
}

// checkMember refuses an agent that may read the intent, and is no member of the channel.
func (ch *channelRecord) checkMember(name string) error {
	switch {
	case ch.isMember(name):
		return nil
	case !ch.opt.Discoverable:
		return object.NewNotFoundError("channel")
	}
	return object.NewError(object.CodeNotMember, "the channel is for its members: ask its creator to add you")
}

// isMember reports whether the channel admits an agent that has access to the intent.
func (ch *channelRecord) isMember(name string) bool {
	return ch.doc.Policy == object.PolicyIntent || slices.Contains(ch.doc.Members, name)
}

// mayReadChannel reports whether the caller may read the channel, as authorizeChannelReader
// decides it.
func (w *world) mayReadChannel(ch *channelRecord, who Caller, at chain.Time) bool {
	return who.Operator || ch.isMember(who.name) && w.callerAccessLevel(ch.in, who, at) >= levelRead
}

// mayManageChannel reports whether the caller may change the channel, as its creator or a
// coordinator of its intent.
func (w *world) mayManageChannel(ch *channelRecord, who Caller, at chain.Time) bool {
	return who.Agent == ch.doc.CreatedBy && who.Home == ch.doc.Home || w.isCoordinator(ch.in, who, at)
}
