package kinds

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/wire"
)

// The payloads, one struct a kind. They are read-only views: a payload travels as
// the text that its sender wrote, unknown fields included. A zero value means the
// default that the field's comment names.

// Pong answers ping.
type Pong struct {
	Status      string `json:"status"` // idle, busy or overloaded
	UptimeSecs  uint64 `json:"uptime_secs"`
	ActiveTasks uint64 `json:"active_tasks"`
	AgentName   string `json:"agent_name,omitzero"`
	Attached    uint64 `json:"attached,omitzero"` // number of attached agents
}

// Query asks a question.
type Query struct {
	Question   string `json:"question"`
	Domain     string `json:"domain,omitzero"`
	MaxTokens  uint64 `json:"max_tokens,omitzero"`  // 0: no limit
	DeadlineMS uint64 `json:"deadline_ms,omitzero"` // 0: 30,000
}

// Response answers query.
type Response struct {
	Data       jsontext.Value `json:"data,omitzero"`
	Summary    string         `json:"summary"`
	TokensUsed uint64         `json:"tokens_used,omitzero"`
	Truncated  bool           `json:"truncated,omitzero"`
}

// Delegate hands over a task.
type Delegate struct {
	Task       string         `json:"task"`
	Context    jsontext.Value `json:"context,omitzero"`  // an object
	Priority   string         `json:"priority,omitzero"` // normal or urgent; "": normal
	ReportBack *bool          `json:"report_back,omitzero"`
	DeadlineMS uint64         `json:"deadline_ms,omitzero"` // 0: none
	Domain     string         `json:"domain,omitzero"`
}

// OwesResult reports whether a result is owed: yes unless report_back is false.
func (d *Delegate) OwesResult() bool { return d.ReportBack == nil || *d.ReportBack }

// Deadline returns how long the task may take; 0: no deadline.
func (d *Delegate) Deadline() time.Duration {
	return time.Duration(d.DeadlineMS) * time.Millisecond
}

// Ack answers delegate and cancel.
type Ack struct {
	Accepted    bool   `json:"accepted"`
	EstimatedMS uint64 `json:"estimated_ms,omitzero"`
	Code        Code   `json:"code,omitzero"`    // when not accepted
	Message     string `json:"message,omitzero"` // when not accepted
}

// Result reports on a delegation.
type Result struct {
	Status  string         `json:"status"` // completed, failed or partial
	Outcome string         `json:"outcome"`
	Data    jsontext.Value `json:"data,omitzero"`
	Error   *string        `json:"error,omitzero"` // null on success

	// Of a partial one:
	Progress *float64 `json:"progress,omitzero"` // how much is done, 0 to 1; nil if that is not known
	Message  string   `json:"message,omitzero"`  // what is being done, at most 1 KiB
}

// IsPartial reports whether a message says only how far a delegation has come: it wakes nobody, and is not
// stored in an inbox.
func IsPartial(kind string, payload wire.Payload) bool {
	if kind != KindResult {
		return false
	}
	r, err := ParsePayload[Result](payload)
	return err == nil && r.Status == "partial"
}

// Notify tells agents of something that concerns a topic.
type Notify struct {
	Topic      string         `json:"topic"`
	Data       jsontext.Value `json:"data,omitzero"`
	Importance string         `json:"importance,omitzero"` // low, medium or high; "": low
}

// Cancel ends the delegation that the envelope's ref names.
type Cancel struct {
	Reason string `json:"reason,omitzero"`
}

// Capabilities answers discover.
type Capabilities struct {
	AgentName          string   `json:"agent_name,omitzero"`
	Agents             []string `json:"agents,omitzero"`   // names of the attached agents, if the daemon answers for all
	Sessions           []string `json:"sessions,omitzero"` // those of them, or the one that was asked about, that answer only while they have a turn
	Domains            []string `json:"domains,omitzero"`
	Channels           []string `json:"channels,omitzero"`
	Tools              []string `json:"tools,omitzero"`
	MaxConcurrentTasks uint64   `json:"max_concurrent_tasks,omitzero"`
	Model              string   `json:"model,omitzero"`

	Details []AgentDetails `json:"details,omitzero"` // of the agents that take queries or delegations, in the order of their names, at most 64
}

// AgentDetails says of an agent what it is for, and how it answers the sender of the discover.
type AgentDetails struct {
	Name    string `json:"name"`
	About   string `json:"about,omitzero"` // in the agent's own words, at most 120 characters
	Answers string `json:"answers"`        // now, wakes or turn; a later daemon may have other words
}

// How an agent answers. Of a session they are true for a query that is sent now.
const (
	AnswersNow   = "now"   // by itself
	AnswersWakes = "wakes" // it is a session, and a query of the asker begins a turn of it
	AnswersTurn  = "turn"  // it is a session, and reads a query at its next tool call
)

// ListAgents returns the details of each of the agents in the capabilities, or of the one that was asked about.
// Answers is empty if the capabilities do not have it.
func (c *Capabilities) ListAgents() []AgentDetails {
	names := c.Agents
	switch {
	case len(names) == 0 && len(c.Details) > 0:
		return c.Details
	case len(names) == 0:
		names = c.Sessions
	}
	known := make(map[string]AgentDetails) // a peer may name very many
	for _, name := range c.Sessions {
		known[name] = AgentDetails{Name: name, Answers: AnswersTurn}
	}
	for _, d := range slices.Backward(c.Details) { // the first one holds
		known[d.Name] = d
	}
	all := make([]AgentDetails, 0, len(names))
	for _, name := range names {
		a := known[name]
		a.Name = name
		all = append(all, a)
	}
	return all
}
