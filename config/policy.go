package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/yamldoc"
	"github.com/acpd/acpd/kinds"
)

// ListPolicyKinds returns the kinds of messages and the words about which a policy decides, and the
// kinds that it always allows.
func ListPolicyKinds() []string { return slices.Concat(policedKinds, freeKinds) }

// IsPolicyKind reports whether kind is one of [ListPolicyKinds].
func IsPolicyKind(kind string) bool {
	return slices.Contains(ListPolicyKinds(), kind)
}

// Decision is whether a policy allows one message, and why.
type Decision struct {
	Allowed bool
	Rule    string // the rule that decided and why, for a person
	Key     string // of the rule in config.yaml, as in policy.laptop; "": no rule decided
}

// Decide returns whether a trusted peer may initiate a message of kind (or
// "mail", "channel" or "file") that names domain, "" for none. name is the peer's
// petname and may be empty.
//
// The rule of the id decides, else that of the name, else that of "*"; without
// one everything is allowed. A rule with domains refuses a message without
// a domain. Results, errors and cancels are allowed always.
func (p Policy) Decide(peer identity.ID, name, kind, domain string) Decision {
	if slices.Contains(freeKinds, kind) {
		return newFreeDecision(kind)
	}
	key, r, ok := p.findRule(peer, name)
	if !ok {
		return Decision{Allowed: true, Rule: "no rule in policy for this peer: a trusted peer may initiate everything"}
	}
	return r.decide(key, kind, domain)
}

// newFreeDecision returns the decision about a kind that no rule stops.
func newFreeDecision(kind string) Decision {
	return Decision{Allowed: true, Rule: kind + " belongs to a delegation: always allowed"}
}

// decide applies the rule that has key in the policy to a message.
func (r Rule) decide(key, kind, domain string) Decision {
	at := yamldoc.JoinKey("policy", key)
	if r.Kinds != nil && !slices.Contains(r.Kinds, kind) {
		return Decision{false, fmt.Sprintf("%s: kinds [%s] do not include %s", at, strings.Join(r.Kinds, ", "), yamldoc.Quote(kind)), at}
	}
	if r.Domains == nil {
		return Decision{true, fmt.Sprintf("%s: allows %s", at, yamldoc.Quote(kind)), at}
	}
	domains := strings.Join(r.Domains, ", ")
	if domain == "" {
		return Decision{false, fmt.Sprintf("%s: domains [%s], and the message names none", at, domains), at}
	}
	for _, d := range r.Domains {
		if kinds.IsUnderDomain(domain, d) {
			return Decision{true, fmt.Sprintf("%s: allows %s in domain %s", at, yamldoc.Quote(kind), d), at}
		}
	}
	return Decision{false, fmt.Sprintf("%s: domains [%s] do not include %s", at, domains, yamldoc.Quote(domain)), at}
}

// findRule returns the most specific rule for a peer, and its key.
func (p Policy) findRule(peer identity.ID, name string) (string, Rule, bool) {
	if len(p) == 0 {
		return "", Rule{}, false // the usual case, on every message: no id as text
	}
	for _, key := range []string{peer.String(), name, star} {
		if r, ok := p[key]; ok {
			return key, r, true
		}
	}
	return "", Rule{}, false
}

// CountRule returns the place of a rule among those in the file, from 1, and how many there are.
func (c *Config) CountRule(key string) (place, all int) {
	for other := range c.Policy {
		if c.Lines[yamldoc.JoinKey("policy", other)] <= c.Lines[key] {
			place++
		}
	}
	return place, len(c.Policy)
}
