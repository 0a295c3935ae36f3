package openintent

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
)

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

const (
	headerAgent    = "X-Agent-ID" // the agent that a caller claims to be
	headerOperator = "X-Operator" // "true": the caller claims to be the operator
	headerAPIKey   = "X-API-Key"
)

// Local identifies callers whose transport has already shown that they are
// this daemon's user: the agent that X-Agent-ID claims, or with X-Operator: true
// the operator. Who says neither is refused, so that a header that was forgotten
// makes nobody the operator.
func Local(r *http.Request) (Caller, error) {
	agent := r.Header.Get(headerAgent)
	switch said := r.Header.Get(headerOperator); {
	case said == "" && agent == "":
		return Caller{}, refuse("no_caller", "%s: say who you are: %[1]s: NAME for an agent, or %s: true for the operator", headerAgent, headerOperator)
	case said == "":
		return claimed(agent)
	case said != "true":
		return Caller{}, refuse("bad_operator", "%s: its one value is true: send that, or leave the header out", headerOperator)
	case agent != "":
		return Caller{}, refuse("two_callers", "%s: the operator is no agent: send this header or %s; to act as an agent, name it as sender in the body", headerOperator, headerAgent)
	}
	return Caller{Agent: operator, Operator: true}, nil
}

// Agents returns a function that identifies callers who can be agents only: the one
// that X-Agent-ID claims, if vouch says that the caller may speak for it.
func Agents(vouch func(agent string, r *http.Request) error) func(*http.Request) (Caller, error) {
	return func(r *http.Request) (Caller, error) {
		agent := r.Header.Get(headerAgent)
		if r.Header.Get(headerOperator) != "" {
			return Caller{}, refuse("no_operator", "%s: there is no operator on the agents' socket: leave the header out, and say in %s which agent you are", headerOperator, headerAgent)
		}
		if agent == "" {
			return Caller{}, refuse("no_caller", "%s: say which agent you are: %[1]s: NAME", headerAgent)
		}
		who, err := claimed(agent)
		if err != nil {
			return Caller{}, err
		}
		return who, vouch(agent, r)
	}
}

// Daemon is the agent as which a daemon asks another for subscribe/home.
const Daemon = system

var errNoOperator = refuse("no_agent", "%s: name an agent; what an operator may do, it may do at the intent's host only", headerAgent)

// Remote identifies callers of another daemon, whose id is proven: the agent is the
// one that X-Agent-ID claims. There are no operators from elsewhere.
func Remote(home string, r *http.Request) (Caller, error) {
	agent := r.Header.Get(headerAgent)
	if agent == "" {
		return Caller{}, errNoOperator
	}
	if agent != Daemon && !validAgentID(agent) {
		return Caller{}, badAgent(headerAgent)
	}
	return Caller{Agent: agent, Home: home}, nil
}

func claimed(agent string) (Caller, error) {
	if !validAgentID(agent) {
		return Caller{}, badAgent(headerAgent)
	}
	return Caller{Agent: agent}, nil
}

func badAgent(field string) *Error {
	return refuse("bad_agent_id",
		"%s: an agent id has at most %d letters, digits and . _ @ + ~ : -, begins with a letter or digit, and is neither \"system\", \"operator\" nor a role", field, maxAgentID)
}

// Key is an API key, without the key itself.
type Key struct {
	Hash  string // what HashKey made of the key
	Agent string // the one agent that the key is for; empty: any, and the operator
}

// HashKey returns what is kept of an API key: 64 hex digits. A key should be
// random, of 128 bits or more, since the hash is a plain SHA-256.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Keys returns a function that identifies callers by X-API-Key. A key that is
// bound to an agent serves that agent alone; with one for any the caller is whom
// [Local] would take it for.
func Keys(keys []Key) func(*http.Request) (Caller, error) {
	return func(r *http.Request) (Caller, error) {
		given := r.Header.Get(headerAPIKey)
		if given == "" {
			return Caller{}, refuse("no_key", "this listener needs an API key in the header %s", headerAPIKey)
		}
		hash := []byte(HashKey(given))
		found := -1
		for i, k := range keys { // all of them, so that the time tells nothing
			if subtle.ConstantTimeCompare(hash, []byte(k.Hash)) == 1 {
				found = i
			}
		}
		if found < 0 {
			return Caller{}, refuseAs(http.StatusUnauthorized, "bad_key", "the API key is unknown: ask whoever runs this daemon for one")
		}
		bound := keys[found].Agent
		if bound == "" {
			return Local(r)
		}
		if r.Header.Get(headerOperator) != "" {
			return Caller{}, refuse("no_operator", "%s: the API key is for an agent: leave the header out", headerOperator)
		}
		if agent := r.Header.Get(headerAgent); agent != "" && agent != bound {
			return Caller{}, refuse("agent_mismatch", "the API key is for another agent than %s names", headerAgent)
		}
		return Caller{Agent: bound}, nil
	}
}
