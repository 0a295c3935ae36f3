package openintent

import (
	"cmp"
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/budget"
)

// Guests are agents that are at home at another daemon. Their home tells who they are and
// whether they work; nothing else is known of them.

// adjustCreatedCounts counts what an agent of home has created, or what is gone, and its bytes on
// disk.
func (t *tx) adjustCreatedCounts(home string, channels, tasks, bytes int) {
	keepEntry(t, t.e.guests, home)
	m := t.e.guests[home]
	m.channels, m.tasks = m.channels+channels, m.tasks+tasks
	t.e.guests[home] = m
	if home != "" {
		keepEntry(t, t.e.onDisk, home)
		t.e.onDisk[home] += int64(bytes)
	}
	t.syncAccounts(home)
}

// guestAccounts has the accounts of what other daemons' agents have made. They follow the world.
type guestAccounts struct{ agents, records, channels, tasks *budget.Account }

// syncGuestAccounts makes the accounts of another daemon hold what the world says.
func (e *Engine) syncGuestAccounts(home string) {
	if home == "" {
		return
	}
	peer, n := peerAccountKey(home), e.guests[home]
	setAccountHolding(e.guestbook.agents, peer, int64(e.homes[home]))
	setAccountHolding(e.guestbook.records, peer, e.records[home])
	setAccountHolding(e.guestbook.channels, peer, int64(n.channels))
	setAccountHolding(e.guestbook.tasks, peer, int64(n.tasks))
	setAccountHolding(e.disk, peer, e.onDisk[home])
}

// checkRoomForAgentRecord refuses a record of another daemon's agent if it is longer than the one
// before, and there is no room for it.
func (e *Engine) checkRoomForAgentRecord(a *agentRecord, doc Agent) error {
	return checkAccountRoom(e.guestbook.records, doc.Host, agentRecordBytes(doc)-a.size, codeTooMany, "give shorter records, or use fewer agent ids")
}

// Guest is an agent's record as the agent's home tells it.
type Guest struct {
	Status    string  `json:"status"`
	RoleID    *string `json:"role_id"`
	Name      *string `json:"name"`
	PublicKey *string `json:"public_key"` // checks the agent's proofs
}

// EncodeAgentRecord returns the record of an agent of this daemon that hosts get, for
// PUT agents/{agent}/record as the agent [Daemon]; "" if the agent has none. ended reports
// that the agent is deregistered.
func (e *Engine) EncodeAgentRecord(agent string) (record string, ended bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	a := e.agents[agentKey{"", agent}]
	if a == nil {
		return "", false
	}
	status := a.statusAt(now())
	return encodeJSONText(Guest{status, a.doc.RoleID, a.doc.Name, a.doc.PublicKey}), status == agentDeregistered
}

// ListAbsentMembers returns at most 1,000 agents of another daemon that are members of channels
// here and have no record here. That daemon has to be asked what has become of them.
func (e *Engine) ListAbsentMembers(home string) (ids []string) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for id := range e.listed[home] {
		if e.agents[agentKey{home, id}] == nil && len(ids) < maxEntries {
			ids = append(ids, id)
		}
	}
	return ids
}

// RemoveDepartedAgents takes agents of another daemon, which says that they are deregistered, out of
// the channels here. It waits until that is done.
func (e *Engine) RemoveDepartedAgents(ctx context.Context, home string, ids []string) error {
	for _, id := range ids {
		err := e.runTransaction(ctx, true, func(t *tx) error {
			return t.beginDeparture(&agentRecord{doc: Agent{AgentID: id, Host: home}}, agentDeregistered)
		})
		if err == nil {
			err = e.leaveAllChannels(ctx, e.agentNameOf(agentKey{home, id}))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ListOf is a list of agents by their ids.
type ListOf struct {
	Agents []string `json:"agents"`
}

// ListDepartedAgents returns those of the named agents that are deregistered here. It tells nothing
// of the others.
func (e *Engine) ListDepartedAgents(named *ListOf) (ListOf, error) {
	gone := ListOf{Agents: []string{}}
	if err := checkAtMost("agents", len(named.Agents), maxEntries, ""); err != nil {
		return gone, err
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

// ListRecordedAgents returns the agents of the caller's daemon of which there are records here.
func (e *Engine) ListRecordedAgents(c *Call) ListOf {
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

// StoreAgentRecord stores the record that the caller's daemon tells of one of its agents.
func (e *Engine) StoreAgentRecord(c *Call, agentID string, want *Guest) error {
	r := Register{AgentID: agentID, RoleID: want.RoleID, Name: want.Name, PublicKey: want.PublicKey}
	if err := cmp.Or(checkOneOf("status", want.Status, agentStatuses), r.fillDefaultsAndCheck()); err != nil {
		return err
	}
	key := agentKey{c.Caller.Home, r.AgentID}
	e.awaitDeparture(c.Context(), key) // before it is back
	err := e.runTransaction(c.Context(), false, func(t *tx) error {
		a, before := e.agents[key], ""
		if a == nil {
			if err := e.checkRoomForAgent(key.home); err != nil {
				return err
			}
			a = &agentRecord{doc: Agent{AgentID: key.id, Capabilities: []string{}, Capacity: r.Capacity, Heartbeat: *r.Heartbeat, Metadata: jsontext.Value("{}"),
				RegisteredAt: t.now, RegisteredBy: key.id, Host: key.home}}
		} else {
			before = a.doc.Status
		}
		doc := a.doc
		doc.Status, doc.RoleID, doc.Name, doc.PublicKey, doc.LastSeen = want.Status, r.RoleID, r.Name, r.PublicKey, t.now
		if doc.Status != agentDeregistered {
			if err := e.checkRoomForAgentRecord(a, doc); err != nil {
				return err
			}
		}
		if err := t.saveAgent(a, doc); err != nil {
			return err
		}
		if doc.Status == agentDeregistered && before != agentDeregistered {
			return t.beginDeparture(a, agentDeregistered)
		}
		return nil
	})
	if err == nil {
		e.awaitDeparture(c.Context(), key)
	}
	return err
}
