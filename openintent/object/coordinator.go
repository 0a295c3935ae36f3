package object

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// Coordinator is a coordinator's lease (RFC-0013), as far as channels need it.
type Coordinator struct {
	ID            string         `json:"id"`
	IntentID      string         `json:"intent_id"`
	AgentID       string         `json:"agent_id"`
	Home          string         `json:"home,omitzero"`
	Role          string         `json:"role"`
	Type          string         `json:"coordinator_type"`
	Scope         string         `json:"scope"`
	Status        string         `json:"status"`
	Interval      int64          `json:"heartbeat_interval_seconds"`
	LastHeartbeat chain.Time     `json:"last_heartbeat"`
	GrantedAt     chain.Time     `json:"granted_at"`
	ExpiresAt     chain.Time     `json:"expires_at"`
	Version       int64          `json:"version"`
	Metadata      jsontext.Value `json:"metadata"`
}

// missedHeartbeats is how many heartbeats a coordinator must miss to lose its role.
const missedHeartbeats = 3

var coordinatorTypes = []string{"llm", "human", "composite", "system"}

// Appoint asks for a coordinator.
type Appoint struct {
	AgentID  string         `json:"agent_id"`
	Home     string         `json:"home,omitzero"`
	IntentID string         `json:"intent_id"`
	Role     string         `json:"role"`
	Type     string         `json:"coordinator_type"`
	Interval int64          `json:"heartbeat_interval_seconds"`
	Metadata jsontext.Value `json:"metadata"`
}

// Check checks what can be checked without the intent.
func (a *Appoint) Check() error {
	if !IsValidAgentName(a.AgentID) {
		return NewAgentIDError("agent_id")
	}
	if err := CheckOneOf("coordinator_type", a.Type, coordinatorTypes); err != nil {
		return err
	}
	if a.Interval < 1 || a.Interval > 86400 || len(a.Role) > MaxAgentID {
		return NewFieldError("heartbeat_interval_seconds", "1 to 86400 seconds")
	}
	return checkMetadata(&a.Metadata)
}

// NewAppoint returns an appointment of the agent with the default values.
func NewAppoint(agent string) *Appoint {
	return &Appoint{AgentID: agent, Role: RoleCoordinator, Type: "llm", Interval: 60}
}

// AfterHeartbeat returns the object after a heartbeat.
func (d Coordinator) AfterHeartbeat(at chain.Time) Coordinator {
	d.LastHeartbeat, d.Version = at, d.Version+1
	d.ExpiresAt = at + chain.Time(d.Interval*missedHeartbeats*1e6)
	return d
}
