package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"

	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/object"
)

const (
	headerAgent    = "X-Agent-ID" // the agent that a caller claims to be
	headerOperator = "X-Operator" // "true": the caller claims to be the operator
	headerAPIKey   = "X-API-Key"

	// HeaderRecord has the record of the agent that makes a request. A home sets it in requests
	// to hosts.
	HeaderRecord = "X-Agent-Record"
)

// Identify returns who makes a request. Its error is an [*object.Error] or an [*Error].
type Identify = func(*http.Request) (openintent.Caller, error)

// IdentifyLocalCaller identifies callers whose transport has shown that they are this daemon's user.
// The caller is the agent that X-Agent-ID claims, or, with X-Operator: true, the operator. A
// caller that says neither is refused, so a forgotten header makes nobody the operator.
func IdentifyLocalCaller(r *http.Request) (openintent.Caller, error) {
	agent := r.Header.Get(headerAgent)
	switch said := r.Header.Get(headerOperator); {
	case said == "" && agent == "":
		return openintent.Caller{}, object.NewError("no_caller", "%s: say who you are: %[1]s: NAME for an agent, or %s: true for the operator", headerAgent, headerOperator)
	case said == "":
		return newAgentCaller(agent)
	case said != "true":
		return openintent.Caller{}, object.NewError("bad_operator", "%s: its one value is true: send that, or leave the header out", headerOperator)
	case agent != "":
		return openintent.Caller{}, object.NewError("two_callers", "%s: the operator is no agent: send this header or %s; to act as an agent, name it as sender in the body", headerOperator, headerAgent)
	}
	return openintent.Caller{Agent: object.Operator, Operator: true}, nil
}

// NewAgentIdentifier returns a function that identifies callers that can be agents only. The caller
// is the agent that X-Agent-ID claims, unless vouch returns an error: the caller may not speak
// for that agent.
func NewAgentIdentifier(vouch func(agent string, r *http.Request) error) Identify {
	return func(r *http.Request) (openintent.Caller, error) {
		agent := r.Header.Get(headerAgent)
		if r.Header.Get(headerOperator) != "" {
			return openintent.Caller{}, object.NewError("no_operator", "%s: there is no operator on the agents' socket: leave the header out, and say in %s which agent you are", headerOperator, headerAgent)
		}
		if agent == "" {
			return openintent.Caller{}, object.NewError("no_caller", "%s: say which agent you are: %[1]s: NAME", headerAgent)
		}
		who, err := newAgentCaller(agent)
		if err != nil {
			return openintent.Caller{}, err
		}
		return who, vouch(agent, r)
	}
}

// IdentifyRemoteCaller identifies callers of another daemon, home, whose id is proven. The caller is the
// agent that X-Agent-ID claims. There are no operators from elsewhere.
func IdentifyRemoteCaller(home string, r *http.Request) (openintent.Caller, error) {
	agent := r.Header.Get(headerAgent)
	if agent == "" {
		return openintent.Caller{}, object.ErrNoAgent
	}
	if agent != object.Daemon && !object.IsAgentID(agent) {
		return openintent.Caller{}, object.NewAgentIDError(headerAgent)
	}
	return openintent.Caller{Agent: agent, Home: home}, nil
}

// newAgentCaller returns the caller that is an agent here, and refuses what is no id of an agent.
func newAgentCaller(agent string) (openintent.Caller, error) {
	if !object.IsAgentID(agent) {
		return openintent.Caller{}, object.NewAgentIDError(headerAgent)
	}
	return openintent.Caller{Agent: agent}, nil
}

// Key is an API key, without the key itself.
type Key struct {
	Hash  string // from HashAPIKey
	Agent string // the one agent that the key serves; empty: any agent, and the operator
}

// HashAPIKey returns the SHA-256 of an API key in 64 hex digits. A key should be random and have 128
// bits or more, because the hash has no salt.
func HashAPIKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// NewKeyIdentifier returns a function that identifies callers by X-API-Key. A key that is bound to
// an agent serves only that agent. With a key for any agent, the caller is found as
// [IdentifyLocalCaller] does.
func NewKeyIdentifier(keys []Key) Identify {
	return func(r *http.Request) (openintent.Caller, error) {
		given := r.Header.Get(headerAPIKey)
		if given == "" {
			return openintent.Caller{}, object.NewError("no_key", "this listener needs an API key in the header %s", headerAPIKey)
		}
		hash := []byte(HashAPIKey(given))
		found := -1
		for i, k := range keys { // all of them, so that the time tells nothing
			if subtle.ConstantTimeCompare(hash, []byte(k.Hash)) == 1 {
				found = i
			}
		}
		if found < 0 {
			return openintent.Caller{}, newStatusError(http.StatusUnauthorized, "bad_key", "the API key is unknown: ask whoever runs this daemon for one")
		}
		bound := keys[found].Agent
		if bound == "" {
			return IdentifyLocalCaller(r)
		}
		if r.Header.Get(headerOperator) != "" {
			return openintent.Caller{}, object.NewError("no_operator", "%s: the API key is for an agent: leave the header out", headerOperator)
		}
		if agent := r.Header.Get(headerAgent); agent != "" && agent != bound {
			return openintent.Caller{}, object.NewError("agent_mismatch", "the API key is for another agent than %s names", headerAgent)
		}
		return openintent.Caller{Agent: bound}, nil
	}
}
