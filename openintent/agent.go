package openintent

import (
	"cmp"
	"errors"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

type agentRecord struct {
	doc  object.Agent
	size int          // of the record, of one that is at home elsewhere
	seen atomic.Int64 // a chain.Time: its last request; not kept over a restart, which counts as one
}

func (a *agentRecord) key() agentKey { return agentKey{a.doc.Host, a.doc.AgentID} }

// addAgentToWorld makes doc the object of an agent, and adds the agent to the world.
func (t *tx) addAgentToWorld(a *agentRecord, doc object.Agent) {
	e := t.e
	set(t, &a.doc, doc)
	k := a.key()
	put(t, e.agents, k, a)
	t.adjustAgentCounts(a, k.home, 1, agentRecordBytes(doc))
	if doc.RoleID == nil {
		return
	}
	all := e.roles[*doc.RoleID]
	if all == nil {
		all = make(map[agentKey]bool)
		e.roles[*doc.RoleID] = all
	}
	put(t, all, k, true)
}

// adjustAgentCounts notes that there are more agents of home, or fewer, and that the record of a
// has so many bytes.
func (t *tx) adjustAgentCounts(a *agentRecord, home string, more, size int) {
	e := t.e
	put(t, e.homes, home, e.homes[home]+more)
	put(t, e.records, home, e.records[home]+int64(size-a.size))
	set(t, &a.size, size)
	t.syncAccounts(home)
}

// agentRecordBytes returns the bytes that are charged for an agent's object, 0 of an agent here.
func agentRecordBytes(doc object.Agent) int {
	if doc.Host == "" {
		return 0
	}
	return len(object.EncodeJSONText(doc))
}

// dropAgentFromWorld takes an agent out of the world, if it is there.
func (t *tx) dropAgentFromWorld(a *agentRecord) {
	e, k := t.e, a.key()
	if e.agents[k] != a {
		return
	}
	drop(t, e.agents, k)
	if t.adjustAgentCounts(a, k.home, -1, 0); e.homes[k.home] == 0 {
		delete(e.homes, k.home)
		delete(e.records, k.home)
	}
	if role := a.doc.RoleID; role != nil {
		keepEntry(t, e.roles, *role)
		if drop(t, e.roles[*role], k); len(e.roles[*role]) == 0 {
			delete(e.roles, *role)
		}
	}
}

// statusAt returns the status that was set, or, for a silent agent here, the one that follows
// from its silence. Whether an agent of another daemon is silent, that daemon tells.
func (a *agentRecord) statusAt(at chain.Time) string {
	if a.doc.Host != "" || a.doc.Status != object.AgentActive && a.doc.Status != object.AgentDraining {
		return a.doc.Status
	}
	switch silent := at - chain.Time(a.seen.Load()); {
	case silent >= chain.Time(0).Add(time.Duration(a.doc.Heartbeat.Dead)*time.Second):
		return object.AgentDead
	case silent >= chain.Time(0).Add(time.Duration(a.doc.Heartbeat.Unhealthy)*time.Second):
		return object.AgentUnhealthy
	}
	return a.doc.Status
}

// docAt returns the agent's object as it is answered.
func (a *agentRecord) docAt(at chain.Time) object.Agent {
	doc := a.doc
	doc.Status = a.statusAt(at)
	doc.LastSeen = chain.Time(a.seen.Load())
	return doc
}

// liveRoleOf returns the role of an agent that can work, "" for none. The world is read-locked, or
// the caller is a write.
func (w *world) liveRoleOf(k agentKey, at chain.Time) string {
	a := w.agents[k]
	if a == nil || a.doc.RoleID == nil {
		return ""
	}
	switch a.statusAt(at) {
	case object.AgentActive, object.AgentDraining, object.AgentUnhealthy:
		return *a.doc.RoleID
	}
	return ""
}

// MarkAgentSeen notes that the agent has made a request, which is a sign of life.
func (e *Engine) MarkAgentSeen(who Caller) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if a := e.agents[agentKey{who.Home, who.Agent}]; a != nil {
		a.seen.Store(int64(now()))
	}
}

// agentDoc returns the agent's object as it is answered now.
func (e *Engine) agentDoc(a *agentRecord) object.Agent {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return a.docAt(now())
}

// mayChangeAgent reports whether the caller may change the record.
func (c *Call) mayChangeAgent(a *object.Agent) bool {
	return c.Caller.Operator || a.AgentID == c.Caller.Agent || a.RegisteredBy == c.Caller.Agent
}

// findAgent returns the record of the agent with an id or name: the agent at the caller's home,
// or else one here. For callers here, an id without either means the agent whose home is the
// first in order. A caller of another daemon finds agents here only if its daemon is in open_to.
func (w *world) findAgent(who Caller, text string) *agentRecord {
	if a := w.agents[agentKey{who.Home, text}]; a != nil {
		return a
	}
	if who.Home != "" {
		if !w.isOpenToHome(who.Home) {
			return nil
		}
		return w.agents[agentKey{"", text}]
	}
	if a := w.agents[w.agentKeyOf(text)]; a != nil {
		return a
	}
	var found *agentRecord
	for key, a := range w.agents {
		if key.id == text && (found == nil || key.home < found.doc.Host) {
			found = a
		}
	}
	return found
}

// GetAgent returns the record of an agent, by its id or name.
func (e *Engine) GetAgent(c *Call, agent string) (object.Agent, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	a := e.findAgent(c.Caller, agent)
	if a == nil {
		return object.Agent{}, object.NewError("not_found", "no such agent is registered")
	}
	return a.docAt(now()), nil
}

// ListAgents returns a page of the records of the agents with the status and the role ("": any)
// that the caller may know, those here first. others returns what other hosts say of their
// agents now, which takes the place of what they once told.
func (e *Engine) ListAgents(c *Call, status, role string, p object.Page, others func(status, role string) map[string][]object.Agent) ([]object.Agent, error) {
	if err := p.CheckBounds(); err != nil {
		return nil, err
	}
	if status != "" {
		if err := object.CheckOneOf("status", status, object.AgentStatuses); err != nil {
			return nil, err
		}
	}
	at, open := now(), e.isOpenToHome(c.Caller.Home)
	list := []object.Agent{}
	e.withReadLock(func() {
		for key, known := range e.agents {
			if c.Caller.Home != "" && (key.home != "" || !open) {
				continue // another daemon sees only the agents here, if it is in open_to
			}
			a := known.docAt(at)
			if (status == "" || a.Status == status) && (role == "" || a.RoleID != nil && *a.RoleID == role) {
				list = append(list, a)
			}
		}
	})
	for host, theirs := range others(status, role) {
		list = append(slices.DeleteFunc(list, func(a object.Agent) bool { return a.Host == host }), theirs...)
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := &list[i], &list[j]
		return cmp.Or(cmp.Compare(min(len(a.Host), 1), min(len(b.Host), 1)), cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.Host, b.Host)) < 0
	})
	return object.CutPage(list, p), nil
}

// SetAgentStatus changes the status of an agent.
func (e *Engine) SetAgentStatus(c *Call, agent string, want *object.StatusChange) (object.Agent, error) {
	if err := want.CheckStatus(object.AgentStatuses); err != nil {
		return object.Agent{}, err
	}
	return e.changeAgentStatus(c, agent, want.Status, want.Reason)
}

// DeregisterAgent deregisters an agent, which then leaves all channels.
func (e *Engine) DeregisterAgent(c *Call, agent string) (object.Agent, error) {
	return e.changeAgentStatus(c, agent, object.AgentDeregistered, "deregistered")
}

// changeAgentStatus changes the status of an agent. An operator may also deregister an agent of
// another daemon.
func (e *Engine) changeAgentStatus(c *Call, id, status, reason string) (object.Agent, error) {
	var a *agentRecord
	key := agentKey{c.Caller.Home, id}
	// Its notices may go to audited channels.
	err := e.runTransaction(c.Context(), status == object.AgentDeregistered, func(t *tx) error {
		if a = e.agents[key]; a == nil && c.Caller.Operator && status == object.AgentDeregistered {
			if a = e.agents[e.agentKeyOf(id)]; a != nil {
				key = a.key()
				return errors.Join(t.deleteAgent(a), t.beginDeparture(a, reason))
			}
		}
		if a == nil {
			return object.NewError("not_found", "no such agent is registered")
		}
		if !c.mayChangeAgent(&a.doc) {
			return object.NewError("not_yours", "only the agent, or who has registered it, may change its status")
		}
		if a.doc.Status == object.AgentDeregistered {
			if status == object.AgentDeregistered {
				return nil
			}
			return object.NewError("agent_deregistered", "the agent is deregistered: register it again")
		}
		doc := a.doc
		doc.Status = status
		if err := t.saveAgent(a, doc); err != nil {
			return err
		}
		if status == object.AgentDeregistered {
			return t.beginDeparture(a, reason)
		}
		return nil
	})
	if err != nil {
		return object.Agent{}, err
	}
	e.awaitDeparture(c.Context(), key)
	return e.agentDoc(a), nil
}

// RecordAgentHeartbeat takes a sign of life of an agent, as every other request is one. If it
// comes too late, the error tells the agent to register again.
func (e *Engine) RecordAgentHeartbeat(c *Call, agent string) (object.Agent, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	a := e.agents[agentKey{c.Caller.Home, agent}]
	if a == nil {
		return object.Agent{}, object.NewError("not_found", "no such agent is registered")
	}
	if !c.mayChangeAgent(&a.doc) {
		return object.Agent{}, object.NewError("not_yours", "only the agent, or who has registered it, may report its life")
	}
	at := now()
	if s := a.statusAt(at); s == object.AgentDead || s == object.AgentDeregistered {
		return object.Agent{}, object.NewError("agent_gone", "the agent is %s: register it again", s)
	}
	a.seen.Store(int64(at))
	return a.docAt(at), nil
}

// saveAgent makes doc the next version of an agent's object. The agent is alive then.
func (t *tx) saveAgent(a *agentRecord, doc object.Agent) error {
	doc.Version++
	if err := t.execute("INSERT INTO openintent_agent (home, id, doc) VALUES (?, ?, ?) ON CONFLICT (home, id) DO UPDATE SET doc = excluded.doc", doc.Host, doc.AgentID, object.EncodeJSONText(doc)); err != nil {
		return err
	}
	t.e.withLock(func() {
		t.dropAgentFromWorld(a)
		t.addAgentToWorld(a, doc)
		a.seen.Store(int64(t.now))
	})
	return nil
}

// deleteAgent removes the record of an agent of another daemon. The
// agent's next request may bring the record back.
func (t *tx) deleteAgent(a *agentRecord) error {
	if err := t.execute("DELETE FROM openintent_agent WHERE home = ? AND id = ?", a.doc.Host, a.doc.AgentID); err != nil {
		return err
	}
	t.e.withLock(func() {
		t.dropAgentFromWorld(a)
		keep(t, &a.doc)
		a.doc.Status = object.AgentDeregistered
	})
	return nil
}
