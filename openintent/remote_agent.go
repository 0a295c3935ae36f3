package openintent

import (
	"cmp"
	"context"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/openintent/object"
)

// Guests are agents that are at home at another daemon. Their home tells who they are and
// whether they work; nothing else is known of them.

// adjustCreatedCounts adds to the numbers of what agents of home have created, and to its bytes on
// disk.
func (t *tx) adjustCreatedCounts(home string, channels, tasks, bytes int) {
	n := t.e.guests[home]
	n.channels, n.tasks = n.channels+channels, n.tasks+tasks
	put(t, t.e.guests, home, n)
	if home != "" {
		put(t, t.e.onDisk, home, t.e.onDisk[home]+int64(bytes))
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
func (g *guestAccounts) checkRoomForAgentRecord(a *agentRecord, doc object.Agent) error {
	return checkAccountRoom(g.records, doc.Host, agentRecordBytes(doc)-a.size, object.CodeTooMany, "give shorter records, or use fewer agent ids")
}

// EncodeAgentRecord returns the record of an agent here that goes to hosts with each of its
// requests, "" if the agent is not registered. A header can have the text.
func (e *Engine) EncodeAgentRecord(agent string) string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	a := e.agents[agentKey{"", agent}]
	if a == nil {
		return ""
	}
	doc := a.docAt(now())
	return strings.ReplaceAll(object.EncodeJSONText(doc.Guest()), "\x7f", `\u007f`)
}

// StoreCallerRecord stores the record that has come with a request of another daemon's agent.
func (e *Engine) StoreCallerRecord(c *Call, record string) error {
	var g object.Guest
	if err := json.Unmarshal([]byte(record), &g); err != nil {
		return object.NewError("bad_json", "the agent's record is not valid JSON: %v", err)
	}
	return e.storeGuest(c.Context(), agentKey{c.Caller.Home, c.Caller.Agent}, g)
}

// ListAwaitedAgents returns the agents of other daemons on whose state something here depends, by
// their homes: members of channels, agents that are asked something, and agents that have a role.
func (e *Engine) ListAwaitedAgents() map[string][]string {
	awaited := make(map[agentKey]bool)
	e.withReadLock(func() {
		for home, ids := range e.listed {
			for id := range ids {
				awaited[agentKey{home, id}] = true
			}
		}
		for key, a := range e.agents {
			if a.doc.RoleID != nil {
				awaited[key] = true
			}
		}
		for _, ch := range e.channels {
			for _, m := range ch.open {
				if m.isDirect() {
					awaited[e.agentKeyOf(m.to)] = true
				}
			}
		}
	})
	byHome := make(map[string][]string)
	for k := range awaited {
		if k.home != "" {
			byHome[k.home] = append(byHome[k.home], k.id)
		}
	}
	return byHome
}

// ListAgentStates returns the states of those of the named agents that are registered here.
func (e *Engine) ListAgentStates(named *object.ListOf) (object.AgentStates, error) {
	known := object.AgentStates{Agents: make(map[string]object.AgentState)}
	if err := object.CheckAtMost("agents", len(named.Agents), object.MaxAsked, ""); err != nil {
		return known, err
	}
	at := now()
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, id := range named.Agents {
		if a := e.agents[agentKey{"", id}]; a != nil {
			known.Agents[id] = object.AgentState{Status: a.statusAt(at), RoleID: a.doc.RoleID}
		}
	}
	return known, nil
}

// StoreAgentStates stores what a home has said of agents, of those that it was asked for. It waits
// until agents that are deregistered have left their channels.
func (e *Engine) StoreAgentStates(ctx context.Context, home string, asked []string, said object.AgentStates) error {
	for _, id := range asked {
		state, ok := said.Agents[id]
		if !ok {
			continue
		}
		key := agentKey{home, id}
		var g object.Guest
		e.withReadLock(func() {
			if a := e.agents[key]; a != nil {
				g = a.doc.Guest()
			}
		})
		g.Status, g.RoleID = state.Status, state.RoleID
		if err := e.storeGuest(ctx, key, g); err != nil {
			return err
		}
	}
	return nil
}

// storeGuest makes g the record of another daemon's agent, if it is not. If the agent is
// deregistered, it leaves all channels.
func (e *Engine) storeGuest(ctx context.Context, key agentKey, g object.Guest) error {
	r := object.Register{AgentID: key.id, RoleID: g.RoleID, Name: g.Name, PublicKey: g.PublicKey}
	if err := cmp.Or(object.CheckOneOf("status", g.Status, object.AgentStatuses), r.FillDefaultsAndCheck()); err != nil {
		return err
	}
	text := object.EncodeJSONText(g)
	isKnown := func(a *agentRecord) bool { return a != nil && object.EncodeJSONText(a.doc.Guest()) == text }
	known := false
	if e.withReadLock(func() { known = isKnown(e.agents[key]) }); known {
		return nil
	}
	if err := e.CheckDiskRoom(key.home); err != nil {
		return err
	}
	e.awaitDeparture(ctx, key) // before it is back
	gone := g.Status == object.AgentDeregistered
	err := e.runTransaction(ctx, gone, func(t *tx) error {
		a := e.agents[key]
		switch {
		case isKnown(a):
			return nil
		case a == nil && gone: // of an agent that has never come, there is no record
			return t.beginDeparture(&agentRecord{doc: object.Agent{AgentID: key.id, Host: key.home}}, object.AgentDeregistered)
		case a == nil:
			if err := e.checkRoomForAgent(key.home); err != nil {
				return err
			}
			a = &agentRecord{doc: object.Agent{AgentID: key.id, Capabilities: []string{}, Capacity: r.Capacity, Heartbeat: *r.Heartbeat, Metadata: jsontext.Value("{}"),
				RegisteredAt: t.now, RegisteredBy: key.id, Host: key.home}}
		}
		doc, before := a.doc, a.doc.Status
		doc.Status, doc.RoleID, doc.Name, doc.PublicKey, doc.LastSeen = g.Status, g.RoleID, g.Name, g.PublicKey, t.now
		if !gone {
			if err := e.guestbook.checkRoomForAgentRecord(a, doc); err != nil {
				return err
			}
		}
		if err := t.saveAgent(a, doc); err != nil {
			return err
		}
		if gone && before != object.AgentDeregistered {
			return t.beginDeparture(a, object.AgentDeregistered)
		}
		return nil
	})
	if err == nil && gone {
		e.awaitDeparture(ctx, key)
	}
	return err
}
