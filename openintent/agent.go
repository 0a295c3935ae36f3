package openintent

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// Agent is the record of RFC-0016 as it is answered and stored.
type Agent struct {
	AgentID      string         `json:"agent_id"`
	Status       string         `json:"status"`
	RoleID       *string        `json:"role_id"`
	Name         *string        `json:"name"`
	Capabilities []string       `json:"capabilities"`
	Capacity     jsontext.Value `json:"capacity"`
	Endpoint     *string        `json:"endpoint"`
	Heartbeat    heartbeats     `json:"heartbeat_config"`
	Metadata     jsontext.Value `json:"metadata"`
	RegisteredAt chain.Time     `json:"registered_at"`
	LastSeen     chain.Time     `json:"last_heartbeat_at"`
	DrainTimeout *int64         `json:"drain_timeout_seconds"`
	PublicKey    *string        `json:"public_key"`
	Version      int64          `json:"version"`
	RegisteredBy string         `json:"registered_by"`
	Host         string         `json:"host,omitzero"` // the daemon at which the agent is at home, if it is another
}

type heartbeats struct {
	Interval  int64 `json:"interval_seconds"`
	Unhealthy int64 `json:"unhealthy_after_seconds"`
	Dead      int64 `json:"dead_after_seconds"`
}

type agent struct {
	doc  Agent
	size int          // of the record, of one that is at home elsewhere
	seen atomic.Int64 // a chain.Time: its last request; not kept over a restart, which counts as one
}

func (a *agent) key() agentKey { return agentKey{a.doc.Host, a.doc.AgentID} }

// addAgent makes doc the record of an agent that is not one of the world's.
func (w *world) addAgent(a *agent, doc Agent) {
	a.doc = doc
	k := a.key()
	w.agents[k] = a
	w.homes[k.home]++
	if a.size = recordSize(doc); a.size > 0 {
		w.records[k.home] += int64(a.size)
	}
	if doc.RoleID == nil {
		return
	}
	all := w.roles[*doc.RoleID]
	if all == nil {
		all = make(map[agentKey]bool)
		w.roles[*doc.RoleID] = all
	}
	all[k] = true
}

// recordSize is what a record of another daemon's agent takes, 0 of one here.
func recordSize(doc Agent) int {
	if doc.Host == "" {
		return 0
	}
	return len(text(doc))
}

// dropAgent takes an agent out of the world, if it is there.
func (w *world) dropAgent(a *agent) {
	k := a.key()
	if w.agents[k] != a {
		return
	}
	delete(w.agents, k)
	w.records[k.home] -= int64(a.size)
	if w.homes[k.home]--; w.homes[k.home] == 0 {
		delete(w.homes, k.home)
		delete(w.records, k.home)
	}
	a.size = 0
	if role := a.doc.RoleID; role != nil {
		if delete(w.roles[*role], k); len(w.roles[*role]) == 0 {
			delete(w.roles, *role)
		}
	}
}

const (
	agentActive       = "active"
	agentDraining     = "draining"
	agentUnhealthy    = "unhealthy"
	agentDead         = "dead"
	agentDeregistered = "deregistered"
)

var agentStatuses = []string{"registering", agentActive, agentDraining, agentUnhealthy, agentDead, agentDeregistered}

// status returns the agent's status: what it was set to, or what follows from
// its silence. Of another daemon's agents that daemon knows.
func (a *agent) status(at chain.Time) string {
	if a.doc.Host != "" || a.doc.Status != agentActive && a.doc.Status != agentDraining {
		return a.doc.Status
	}
	switch silent := at - chain.Time(a.seen.Load()); {
	case silent >= chain.Time(0).Add(time.Duration(a.doc.Heartbeat.Dead)*time.Second):
		return agentDead
	case silent >= chain.Time(0).Add(time.Duration(a.doc.Heartbeat.Unhealthy)*time.Second):
		return agentUnhealthy
	}
	return a.doc.Status
}

func (a *agent) shown(at chain.Time) Agent {
	doc := a.doc
	doc.Status = a.status(at)
	doc.LastSeen = chain.Time(a.seen.Load())
	return doc
}

// roleOf returns the role of an agent that can work, as its home says; "" is none.
// The world is read-locked, or the caller is a write.
func (e *Engine) roleOf(k agentKey, at chain.Time) string {
	a := e.agents[k]
	if a == nil || a.doc.RoleID == nil {
		return ""
	}
	switch a.status(at) {
	case agentActive, agentDraining, agentUnhealthy:
		return *a.doc.RoleID
	}
	return ""
}

// saw takes a request as a sign of life.
func (e *Engine) Saw(who Caller) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if a := e.agents[agentKey{who.Home, who.Agent}]; a != nil {
		a.seen.Store(int64(now()))
	}
}

// changed tells that a record was changed.
func (e *Engine) changed() {
	if e.cfg.Changed != nil {
		e.cfg.Changed()
	}
}

func (e *Engine) shownAgent(a *agent) Agent {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return a.shown(now())
}

// owns reports whether the caller may change the record.
func (c *Call) owns(a *Agent) bool {
	return c.Caller.Operator || a.AgentID == c.Caller.Agent || a.RegisteredBy == c.Caller.Agent
}

// find returns an agent's record: the one at the caller's home, or else one here, or
// else, for who is here, the first in the order of homes. Another daemon hears of the
// agents here if it is in open_to.
func (e *Engine) find(who Caller, text string) *agent {
	if a := e.agents[agentKey{who.Home, text}]; a != nil {
		return a
	}
	if who.Home != "" {
		if !e.openTo(who.Home) {
			return nil
		}
		return e.agents[agentKey{"", text}]
	}
	if a := e.agents[e.key(text)]; a != nil {
		return a
	}
	id := text
	var found *agent
	for key, a := range e.agents {
		if key.id == id && (found == nil || key.home < found.doc.Host) {
			found = a
		}
	}
	return found
}

// GetAgent returns the record of an agent, by its id or name.
func (e *Engine) GetAgent(c *Call, agent string) (Agent, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	a := e.find(c.Caller, agent)
	if a == nil {
		return Agent{}, Refuse("not_found", "no such agent is registered")
	}
	return a.shown(now()), nil
}

// ListAgents returns the records of the agents with the status and the role ("": any) of which
// the caller may know, in no order.
func (e *Engine) ListAgents(c *Call, status, role string) ([]Agent, error) {
	if status != "" && !slices.Contains(agentStatuses, status) {
		return nil, Invalid("status", "one of %s", strings.Join(agentStatuses, ", "))
	}
	at, open := now(), e.openTo(c.Caller.Home)
	list := []Agent{}
	e.rlocked(func() {
		for key, known := range e.agents {
			if c.Caller.Home != "" && (key.home != "" || !open) {
				continue // another daemon hears of the agents here alone, if it is in open_to
			}
			a := known.shown(at)
			if (status == "" || a.Status == status) && (role == "" || a.RoleID != nil && *a.RoleID == role) {
				list = append(list, a)
			}
		}
	})
	return list, nil
}

// SetAgentStatus changes the status of an agent.
func (e *Engine) SetAgentStatus(c *Call, agent string, want *StatusChange) (Agent, error) {
	if err := want.check(agentStatuses); err != nil {
		return Agent{}, err
	}
	return e.changeAgent(c, agent, want.Status, want.Reason)
}

// DeregisterAgent deregisters an agent, which then leaves all channels.
func (e *Engine) DeregisterAgent(c *Call, agent string) (Agent, error) {
	return e.changeAgent(c, agent, agentDeregistered, "deregistered")
}

func (e *Engine) changeAgent(c *Call, id, status, reason string) (Agent, error) {
	var a *agent
	key := agentKey{c.Caller.Home, id}
	// Its notices may go to audited channels.
	err := e.write(c.Context(), status == agentDeregistered, func(t *tx) error {
		if a = e.agents[key]; a == nil && c.Caller.Operator && status == agentDeregistered {
			if a = e.agents[e.key(id)]; a != nil {
				key = a.key()
				return errors.Join(t.removeAgent(a), t.depart(a, reason))
			}
		}
		if a == nil {
			return Refuse("not_found", "no such agent is registered")
		}
		if !c.owns(&a.doc) {
			return Refuse("not_yours", "only the agent, or who has registered it, may change its status")
		}
		if a.doc.Status == agentDeregistered {
			if status == agentDeregistered {
				return nil
			}
			return Refuse("agent_deregistered", "the agent is deregistered: register it again")
		}
		doc := a.doc
		doc.Status = status
		if err := t.saveAgent(a, doc); err != nil {
			return err
		}
		if status == agentDeregistered {
			return t.depart(a, reason)
		}
		return nil
	})
	if err != nil {
		return Agent{}, err
	}
	e.leaves(c.Context(), key)
	e.changed()
	return e.shownAgent(a), nil
}

// BeatAgent takes a sign of life of an agent; every other request is one too. One that comes
// too late tells the agent to register again.
func (e *Engine) BeatAgent(c *Call, agent string) (Agent, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	a := e.agents[agentKey{c.Caller.Home, agent}]
	if a == nil {
		return Agent{}, Refuse("not_found", "no such agent is registered")
	}
	if !c.owns(&a.doc) {
		return Agent{}, Refuse("not_yours", "only the agent, or who has registered it, may report its life")
	}
	at := now()
	if s := a.status(at); s == agentDead || s == agentDeregistered {
		return Agent{}, Refuse("agent_gone", "the agent is %s: register it again", s)
	}
	a.seen.Store(int64(at))
	return a.shown(at), nil
}
