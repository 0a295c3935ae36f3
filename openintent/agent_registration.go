package openintent

import (
	"cmp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

const maxRecord = 32 << 10 // bytes of an agent's record

// Register asks to register an agent.
type Register struct {
	AgentID      string         `json:"agent_id"`
	RoleID       *string        `json:"role_id"`
	Name         *string        `json:"name"`
	Capabilities []string       `json:"capabilities"`
	Capacity     jsontext.Value `json:"capacity"`
	Endpoint     *string        `json:"endpoint"`
	Heartbeat    *heartbeats    `json:"heartbeat_config"`
	Metadata     jsontext.Value `json:"metadata"`
	DrainTimeout *int64         `json:"drain_timeout_seconds"`
	PublicKey    *string        `json:"public_key"`
}

// fillDefaultsAndCheck fills in missing values and refuses those that are not allowed.
func (r *Register) fillDefaultsAndCheck() error {
	if !IsAgentID(r.AgentID) {
		return NewAgentIDError("agent_id")
	}
	if r.RoleID != nil && *r.RoleID != "" && !IsAgentID(*r.RoleID) {
		return NewFieldError("role_id", "a role has the form of an agent id")
	}
	for field, s := range map[string]*string{"name": r.Name, "endpoint": r.Endpoint, "public_key": r.PublicKey} {
		if s != nil && len(*s) > 4096 {
			return NewFieldError(field, "at most 4096 bytes")
		}
	}
	if r.PublicKey != nil && *r.PublicKey != "" {
		if _, ok := chain.ParsePublicKey(*r.PublicKey); !ok {
			return NewFieldError("public_key", "an Ed25519 key of 32 bytes in base64 is needed")
		}
	}
	if err := checkAtMost("capabilities", len(r.Capabilities), maxEntries, ""); err != nil {
		return err
	}
	if r.Heartbeat == nil {
		r.Heartbeat = &heartbeats{Interval: 30, Unhealthy: 90, Dead: 300}
	}
	const year = 366 * 24 * 3600
	if h := r.Heartbeat; min(h.Interval, h.Unhealthy, h.Dead) < 1 || max(h.Interval, h.Unhealthy, h.Dead) > year || h.Unhealthy > h.Dead {
		return NewFieldError("heartbeat_config", "three times from 1 second to a year are needed, unhealthy before dead")
	}
	if r.Capacity == nil || r.Capacity.Kind() == 'n' {
		r.Capacity = jsontext.Value(`{"max_concurrent_tasks":5,"current_load":0}`)
	}
	if err := NormalizeJSONObject("capacity", &r.Capacity); err != nil {
		return err
	}
	if size := len(encodeJSONText(*r)); size > maxRecord {
		return NewError("too_large", "the record has %d bytes: at most %d are kept", size, maxRecord)
	}
	return NormalizeJSONObject("metadata", &r.Metadata)
}

// RegisterAgent registers an agent, or changes its record. isNew reports that there was none.
func (e *Engine) RegisterAgent(c *Call, want *Register) (doc Agent, isNew bool, err error) {
	if want.AgentID == "" {
		want.AgentID = c.Caller.Agent
	}
	if err := want.fillDefaultsAndCheck(); err != nil {
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
			a = &agentRecord{doc: Agent{AgentID: want.AgentID, RegisteredAt: t.now, RegisteredBy: c.Caller.Agent, Host: c.Caller.Home}}
		} else if !c.mayChangeAgent(&a.doc) {
			return NewError("agent_taken", "the agent id is registered by somebody else: choose another")
		}
		doc := a.doc
		if c.Caller.Agent == doc.AgentID { // from now on only the agent itself changes the record
			doc.RegisteredBy = doc.AgentID
		}
		doc.Status, doc.LastSeen = agentActive, t.now
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
