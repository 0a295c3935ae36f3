package openintent

import (
	"cmp"

	"github.com/acpd/acpd/openintent/object"
)

// RegisterAgent registers an agent, or changes its record. isNew reports that there was none.
func (e *Engine) RegisterAgent(c *Call, want *object.Register) (doc object.Agent, isNew bool, err error) {
	if want.AgentID == "" {
		want.AgentID = c.Caller.Agent
	}
	if err := want.FillDefaultsAndCheck(); err != nil {
		return doc, false, err
	}
	e.awaitDeparture(c.Context(), agentKey{c.Caller.Home, want.AgentID}) // before it is back
	var a *agentRecord
	err = e.runTransaction(c.Context(), false, func(t *tx) error {
		key := agentKey{c.Caller.Home, want.AgentID}
		a = e.agents[key]
		if a == nil {
			if err := e.checkRoomForAgent(c.Caller.Home); err != nil {
				return err
			}
			isNew = true
			a = &agentRecord{doc: object.Agent{AgentID: want.AgentID, RegisteredAt: t.now, RegisteredBy: c.Caller.Agent, Host: c.Caller.Home}}
		} else if !c.mayChangeAgent(&a.doc) {
			return object.NewError("agent_taken", "the agent id is registered by somebody else: choose another")
		}
		doc := a.doc
		if c.Caller.Agent == doc.AgentID { // from now on only the agent itself changes the record
			doc.RegisteredBy = doc.AgentID
		}
		doc.Status, doc.LastSeen = object.AgentActive, t.now
		doc.RoleID, doc.Name, doc.Capabilities, doc.Capacity, doc.Endpoint = want.RoleID, want.Name, append([]string{}, want.Capabilities...), want.Capacity, want.Endpoint
		doc.Heartbeat, doc.Metadata, doc.DrainTimeout, doc.PublicKey = *want.Heartbeat, want.Metadata, want.DrainTimeout, want.PublicKey
		if err := e.guestbook.checkRoomForAgentRecord(a, doc); err != nil {
			return err
		}
		return t.saveAgent(a, doc)
	})
	if err != nil {
		return doc, false, err
	}
	return e.agentDoc(a), isNew, nil
}

// checkRoomForAgent refuses one more agent of a daemon. Agents here have room of their own.
func (e *Engine) checkRoomForAgent(home string) error {
	return cmp.Or(checkRoomForLocalAgents(home, e.homes[""], "agents", maxAgents, "register one that there is with its id"),
		checkRoomForGuests(e.guestbook.agents, home, "use fewer agent ids"))
}
