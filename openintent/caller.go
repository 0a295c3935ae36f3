package openintent

// Caller is who makes a request, as whoever received it has established.
type Caller struct {
	Agent string // the agent's id; an operator that names none is "operator"

	// Operator sees and manages everything. It may act as any agent, by naming
	// one as sender; then that agent's rights count.
	Operator bool

	// Home is the id of the daemon that the agent talks to, empty for this one.
	// It must be proven, and that daemon must be the one that speaks for Agent.
	Home string

	name string // of the agent, on intents that live here
}

// Daemon is the agent as which a daemon asks another for subscribe/home.
const Daemon = system

var ErrNoAgent = Refuse("no_agent", "%s: name an agent; what an operator may do, it may do at the intent's host only", "X-Agent-ID")

// BadAgentID is the refusal of an agent id in that field or header.
func BadAgentID(field string) *Error {
	return Refuse("bad_agent_id",
		"%s: an agent id has at most %d letters, digits and . _ @ + ~ : -, begins with a letter or digit, and is neither \"system\", \"operator\" nor a role", field, maxAgentID)
}

// Operator is the agent as which an operator acts that names none.
const Operator = operator
