package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"

	"github.com/acpd/acpd/openintent"
)

const (
	headerAgent    = "X-Agent-ID" // the agent that a caller claims to be
	headerOperator = "X-Operator" // "true": the caller claims to be the operator
	headerAPIKey   = "X-API-Key"
)

// Local identifies callers whose transport has already shown that they are
// this daemon's user: the agent that X-Agent-ID claims, or with X-Operator: true
// the operator. Who says neither is refused, so that a header that was forgotten
// makes nobody the operator.
func Local(r *http.Request) (openintent.Caller, error) {
	agent := r.Header.Get(headerAgent)
	switch said := r.Header.Get(headerOperator); {
	case said == "" && agent == "":
		return openintent.Caller{}, openintent.Refuse("no_caller", "%s: say who you are: %[1]s: NAME for an agent, or %s: true for the operator", headerAgent, headerOperator)
	case said == "":
		return claimed(agent)
	case said != "true":
		return openintent.Caller{}, openintent.Refuse("bad_operator", "%s: its one value is true: send that, or leave the header out", headerOperator)
	case agent != "":
		return openintent.Caller{}, openintent.Refuse("two_callers", "%s: the operator is no agent: send this header or %s; to act as an agent, name it as sender in the body", headerOperator, headerAgent)
	}
	return openintent.Caller{Agent: openintent.Operator, Operator: true}, nil
}

// Agents returns a function that identifies callers who can be agents only: the one
// that X-Agent-ID claims, if vouch says that the caller may speak for it.
func Agents(vouch func(agent string, r *http.Request) error) func(*http.Request) (openintent.Caller, error) {
	return func(r *http.Request) (openintent.Caller, error) {
		agent := r.Header.Get(headerAgent)
		if r.Header.Get(headerOperator) != "" {
			return openintent.Caller{}, openintent.Refuse("no_operator", "%s: there is no operator on the agents' socket: leave the header out, and say in %s which agent you are", headerOperator, headerAgent)
		}
		if agent == "" {
			return openintent.Caller{}, openintent.Refuse("no_caller", "%s: say which agent you are: %[1]s: NAME", headerAgent)
		}
		who, err := claimed(agent)
		if err != nil {
			return openintent.Caller{}, err
		}
		return who, vouch(agent, r)
	}
}

// Remote identifies callers of another daemon, whose id is proven: the agent is the
// one that X-Agent-ID claims. There are no operators from elsewhere.
func Remote(home string, r *http.Request) (openintent.Caller, error) {
	agent := r.Header.Get(headerAgent)
	if agent == "" {
		return openintent.Caller{}, openintent.ErrNoAgent
	}
	if agent != openintent.Daemon && !openintent.ValidAgentID(agent) {
		return openintent.Caller{}, openintent.BadAgentID(headerAgent)
	}
	return openintent.Caller{Agent: agent, Home: home}, nil
}

func claimed(agent string) (openintent.Caller, error) {
	if !openintent.ValidAgentID(agent) {
		return openintent.Caller{}, openintent.BadAgentID(headerAgent)
	}
	return openintent.Caller{Agent: agent}, nil
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
func Keys(keys []Key) func(*http.Request) (openintent.Caller, error) {
	return func(r *http.Request) (openintent.Caller, error) {
		given := r.Header.Get(headerAPIKey)
		if given == "" {
			return openintent.Caller{}, openintent.Refuse("no_key", "this listener needs an API key in the header %s", headerAPIKey)
		}
		hash := []byte(HashKey(given))
		found := -1
		for i, k := range keys { // all of them, so that the time tells nothing
			if subtle.ConstantTimeCompare(hash, []byte(k.Hash)) == 1 {
				found = i
			}
		}
		if found < 0 {
			return openintent.Caller{}, refuseAs(http.StatusUnauthorized, "bad_key", "the API key is unknown: ask whoever runs this daemon for one")
		}
		bound := keys[found].Agent
		if bound == "" {
			return Local(r)
		}
		if r.Header.Get(headerOperator) != "" {
			return openintent.Caller{}, openintent.Refuse("no_operator", "%s: the API key is for an agent: leave the header out", headerOperator)
		}
		if agent := r.Header.Get(headerAgent); agent != "" && agent != bound {
			return openintent.Caller{}, openintent.Refuse("agent_mismatch", "the API key is for another agent than %s names", headerAgent)
		}
		return openintent.Caller{Agent: bound}, nil
	}
}
