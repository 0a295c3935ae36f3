package object

import (
	"cmp"

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
	Heartbeat    Heartbeats     `json:"heartbeat_config"`
	Metadata     jsontext.Value `json:"metadata"`
	RegisteredAt chain.Time     `json:"registered_at"`
	LastSeen     chain.Time     `json:"last_heartbeat_at"`
	DrainTimeout *int64         `json:"drain_timeout_seconds"`
	PublicKey    *string        `json:"public_key"`
	Version      int64          `json:"version"`
	RegisteredBy string         `json:"registered_by"`
	Host         string         `json:"host,omitzero"` // the daemon at which the agent is at home, if it is another
}

type Heartbeats struct {
	Interval  int64 `json:"interval_seconds"`
	Unhealthy int64 `json:"unhealthy_after_seconds"`
	Dead      int64 `json:"dead_after_seconds"`
}

const (
	AgentActive       = "active"
	AgentDraining     = "draining"
	AgentUnhealthy    = "unhealthy"
	AgentDead         = "dead"
	AgentDeregistered = "deregistered"
)

var AgentStatuses = []string{"registering", AgentActive, AgentDraining, AgentUnhealthy, AgentDead, AgentDeregistered}

const maxRecord = 32 << 10 // bytes of an agent's record

// Register asks to register an agent.
type Register struct {
	AgentID      string         `json:"agent_id"`
	RoleID       *string        `json:"role_id"`
	Name         *string        `json:"name"`
	Capabilities []string       `json:"capabilities"`
	Capacity     jsontext.Value `json:"capacity"`
	Endpoint     *string        `json:"endpoint"`
	Heartbeat    *Heartbeats    `json:"heartbeat_config"`
	Metadata     jsontext.Value `json:"metadata"`
	DrainTimeout *int64         `json:"drain_timeout_seconds"`
	PublicKey    *string        `json:"public_key"`
}

// FillDefaultsAndCheck fills in missing values and refuses those that are not allowed.
func (r *Register) FillDefaultsAndCheck() error {
	if !IsAgentID(r.AgentID) {
		return NewAgentIDError("agent_id")
	}
	if r.RoleID != nil && *r.RoleID != "" && !IsAgentID(*r.RoleID) {
		return NewFieldError("role_id", "a role has the form of an agent id")
	}
	if r.PublicKey != nil && *r.PublicKey != "" {
		if _, ok := chain.ParsePublicKey(*r.PublicKey); !ok {
			return NewFieldError("public_key", "an Ed25519 key of 32 bytes in base64 is needed")
		}
	}
	if err := cmp.Or(checkText("name", r.Name, maxText), checkText("endpoint", r.Endpoint, maxText), checkText("public_key", r.PublicKey, maxText),
		CheckAtMost("capabilities", len(r.Capabilities), MaxEntries, "")); err != nil {
		return err
	}
	if r.Heartbeat == nil {
		r.Heartbeat = &Heartbeats{Interval: 30, Unhealthy: 90, Dead: 300}
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
	if size := len(EncodeJSONText(*r)); size > maxRecord {
		return NewError("too_large", "the record has %d bytes: at most %d are kept", size, maxRecord)
	}
	return NormalizeJSONObject("metadata", &r.Metadata)
}

// Guest is an agent's record as its home sends it to hosts.
type Guest struct {
	Status    string  `json:"status"`
	RoleID    *string `json:"role_id"`
	Name      *string `json:"name"`
	PublicKey *string `json:"public_key"` // checks the agent's proofs
}

// Guest returns the part of a record that hosts get.
func (a *Agent) Guest() Guest { return Guest{a.Status, a.RoleID, a.Name, a.PublicKey} }

// ListOf is a list of agents by their ids.
type ListOf struct {
	Agents []string `json:"agents"`
}

// AgentState is a home's answer about an agent.
type AgentState struct {
	Status string  `json:"status"`
	RoleID *string `json:"role_id"`
}

// AgentStates has the states of agents by their ids.
type AgentStates struct {
	Agents map[string]AgentState `json:"agents"`
}

// MaxAsked bounds the agents in one question of a host.
const MaxAsked = MaxEntries
