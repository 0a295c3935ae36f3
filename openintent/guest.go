package openintent

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/budget"
)

// Guests are agents that are at home at another daemon. What is known of them is
// what their home says: who they are and whether they work, and no more.

// count counts what an agent of that home has created, and what that takes on disk, or what
// is gone.
func (w *world) count(home string, channels, tasks, bytes int) {
	m := w.guests[home]
	m.channels, m.tasks = m.channels+channels, m.tasks+tasks
	w.guests[home] = m
	if home != "" {
		w.onDisk[home] += int64(bytes)
	}
}

// guestbook are the accounts of what other daemons' agents have made. They say what the
// world does.
type guestbook struct{ agents, records, channels, tasks *budget.Account }

// count is that of the world, which the accounts follow, as they do addAgent and
// dropAgent.
func (e *Engine) count(home string, channels, tasks, bytes int) {
	e.world.count(home, channels, tasks, bytes)
	e.holdMade(home)
}

func (e *Engine) addAgent(a *agent, doc Agent) {
	e.world.addAgent(a, doc)
	e.holdMade(doc.Host)
}

func (e *Engine) dropAgent(a *agent) {
	e.world.dropAgent(a)
	e.holdMade(a.doc.Host)
}

func (e *Engine) holdMade(home string) {
	if home == "" {
		return
	}
	peer, n := peerOf(home), e.guests[home]
	hold(e.guestbook.agents, peer, int64(e.homes[home]))
	hold(e.guestbook.records, peer, e.records[home])
	hold(e.guestbook.channels, peer, int64(n.channels))
	hold(e.guestbook.tasks, peer, int64(n.tasks))
	hold(e.disk, peer, e.onDisk[home])
}

// roomForRecord refuses a record of another daemon's agent that is longer than there is
// room for.
func (e *Engine) roomForRecord(a *agent, doc Agent) error {
	more, peer := int64(recordSize(doc)-a.size), peerOf(doc.Host)
	if doc.Host == "" || more <= 0 {
		return nil
	}
	if err := e.guestbook.records.Take(peer, more); err != nil {
		return exceeded(err, codeTooMany, "give shorter records, or use fewer agent ids")
	}
	e.guestbook.records.Give(peer, more)
	return nil
}

// mayMake refuses one more of what an account counts to another daemon's agents. Only
// writes change what is held, and they come one after the other.
func mayMake(a *budget.Account, home, remedy string) error {
	peer := peerOf(home)
	if err := a.Take(peer, 1); err != nil {
		return exceeded(err, codeTooMany, remedy)
	}
	a.Give(peer, 1)
	return nil
}

// Guest is an agent's record as its home tells it.
type Guest struct {
	Status    string  `json:"status"`
	RoleID    *string `json:"role_id"`
	Name      *string `json:"name"`
	PublicKey *string `json:"public_key"` // checks the agent's proofs
}

// Record returns the record of an agent of this daemon as its hosts are to know it,
// for PUT agents/{agent}/record as the agent [Daemon]; empty where it has none.
// ended says that the agent is deregistered.
func (e *Engine) Record(agent string) (record string, ended bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	a := e.agents[agentKey{"", agent}]
	if a == nil {
		return "", false
	}
	status := a.status(now())
	return text(Guest{status, a.doc.RoleID, a.doc.Name, a.doc.PublicKey}), status == agentDeregistered
}

// Strangers returns the agents of another daemon that are members of channels here and
// have never come, at most 1,000: what becomes of them that daemon has to be asked.
func (e *Engine) Strangers(home string) (ids []string) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for id := range e.listed[home] {
		if e.agents[agentKey{home, id}] == nil && len(ids) < maxEntries {
			ids = append(ids, id)
		}
	}
	return ids
}

// Depart takes agents of another daemon, which says that they are deregistered, out of
// the channels here.
func (e *Engine) Depart(ctx context.Context, home string, ids []string) error {
	for _, id := range ids {
		err := e.write(ctx, true, func(t *tx) error {
			return t.depart(&agent{doc: Agent{AgentID: id, Host: home}}, agentDeregistered)
		})
		if err == nil {
			err = e.finishLeaving(ctx, e.name(agentKey{home, id}))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ListOf names agents.
type ListOf struct {
	Agents []string `json:"agents"`
}

// ListDeparted returns which of the agents that another daemon names are deregistered here.
// It tells nothing of the others.
func (e *Engine) ListDeparted(named *ListOf) (ListOf, error) {
	gone := ListOf{Agents: []string{}}
	if len(named.Agents) > maxEntries {
		return gone, Invalid("agents", "at most %d", maxEntries)
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, id := range named.Agents {
		if a := e.agents[agentKey{"", id}]; a != nil && a.doc.Status == agentDeregistered {
			gone.Agents = append(gone.Agents, id)
		}
	}
	return gone, nil
}

// ListRecords returns of which agents of the caller's daemon there are records here.
func (e *Engine) ListRecords(c *Call) ListOf {
	known := ListOf{Agents: []string{}}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for k := range e.agents {
		if k.home == c.Caller.Home {
			known.Agents = append(known.Agents, k.id)
		}
	}
	return known
}

// TakeRecord takes what the caller's daemon says of an agent of its own.
func (e *Engine) TakeRecord(c *Call, agentID string, want *Guest) error {
	if !slices.Contains(agentStatuses, want.Status) {
		return Invalid("status", "one of %s", strings.Join(agentStatuses, ", "))
	}
	r := Register{AgentID: agentID, RoleID: want.RoleID, Name: want.Name, PublicKey: want.PublicKey}
	if err := r.check(); err != nil {
		return err
	}
	key := agentKey{c.Caller.Home, r.AgentID}
	e.leaves(c.Context(), key) // before it is back
	err := e.write(c.Context(), false, func(t *tx) error {
		a, before := e.agents[key], ""
		if a == nil {
			if err := e.roomForAgent(key.home); err != nil {
				return err
			}
			a = &agent{doc: Agent{AgentID: key.id, Capabilities: []string{}, Capacity: r.Capacity, Heartbeat: *r.Heartbeat, Metadata: jsontext.Value("{}"),
				RegisteredAt: t.now, RegisteredBy: key.id, Host: key.home}}
		} else {
			before = a.doc.Status
		}
		doc := a.doc
		doc.Status, doc.RoleID, doc.Name, doc.PublicKey, doc.LastSeen = want.Status, r.RoleID, r.Name, r.PublicKey, t.now
		if doc.Status != agentDeregistered {
			if err := e.roomForRecord(a, doc); err != nil {
				return err
			}
		}
		if err := t.saveAgent(a, doc); err != nil {
			return err
		}
		if doc.Status == agentDeregistered && before != agentDeregistered {
			return t.depart(a, agentDeregistered)
		}
		return nil
	})
	if err == nil {
		e.leaves(c.Context(), key)
	}
	return err
}
