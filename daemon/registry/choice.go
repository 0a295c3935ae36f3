package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// RetryAfterMS is when it makes sense to ask an agent again that was full.
const RetryAfterMS = 1000

// requests is n of them, in words.
func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

// ShareError says that a peer has all the places of an agent that one may have
// while others are connected.
type ShareError struct {
	agent string
	n     int
}

func (e *ShareError) Error() string {
	return fmt.Sprintf("agent %s works on %s of this peer, as many as it takes of one while others are connected (budget: %s)", e.agent, requests(e.n), budget.Places.Name)
}

// Reserve chooses the agent for a query or delegate of a peer and reserves a place of it,
// which release gives back; with all, the peer may have every place. The agent is the one
// that is named, else the one with the longest matching domain, of those the least busy,
// then the last attached.
func (r *Registry) Reserve(from identity.ID, all bool, kind, domain, name string) (*Place, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var best *Agent
	var bestMatch int
	candidates := 0
	for _, a := range r.attached {
		if !a.takes(kind) || name != "" && a.Name != name {
			continue
		}
		candidates++
		match := 0
		if domain != "" && name == "" {
			if match = LongestMatch(a.Domains, domain); match < 0 {
				continue
			}
		}
		if best == nil || match > bestMatch || match == bestMatch && r.before(a, best) {
			best, bestMatch = a, match
		}
	}
	switch {
	case best != nil && r.active(best) >= best.MaxConcurrent:
		e := kinds.Errorf(kinds.Overloaded, "agent %s works on %s, as many as it takes: try again later", best.Name, requests(r.active(best)))
		e.RetryAfterMS = RetryAfterMS
		return nil, e
	case best != nil && !all && r.activeFor(best, from) >= max(best.MaxConcurrent-1, 1):
		return nil, &ShareError{best.Name, r.activeFor(best, from)}
	case best != nil:
		best.running++
		best.peers[from]++
		return &Place{Agent: best, from: from}, nil
	case candidates > 0:
		return nil, r.unknownDomain(kind, domain)
	case name != "":
		return nil, kinds.Errorf(kinds.NoAgent, "no agent %q is attached that takes a %s: name another, or none", name, noun(kind))
	}
	return nil, kinds.Errorf(kinds.NoAgent, "no agent is attached that takes a %s: try again when one is", noun(kind))
}

// noun is what people call a message of a kind that agents are picked for.
func noun(kind string) string {
	if kind == kinds.KindDelegate {
		return "delegation"
	}
	return kind
}

// activeFor is what an agent has to do for one peer. The caller holds mu.
func (r *Registry) activeFor(a *Agent, from identity.ID) int {
	return a.peers[from] + r.load[a.Name][from]
}

// before reports whether a, attached after b, is to be chosen of two whose domains
// match equally: one with a free place, then the less busy, then the later.
func (r *Registry) before(a, b *Agent) bool {
	aFull, bFull := r.active(a) >= a.MaxConcurrent, r.active(b) >= b.MaxConcurrent
	if aFull != bFull {
		return bFull
	}
	return r.active(a) <= r.active(b)
}

// LongestMatch returns the length of the longest domain that matches, 0 where none is
// declared, -1 where none matches.
func LongestMatch(domains []string, domain string) int {
	if len(domains) == 0 {
		return 0
	}
	n := -1
	for _, d := range domains {
		if kinds.UnderDomain(domain, d) {
			n = max(n, len(d))
		}
	}
	return n
}

// unknownDomain names the domains that there are. The caller holds mu.
func (r *Registry) unknownDomain(kind, domain string) error {
	var known []string
	for _, a := range r.attached {
		if a.takes(kind) {
			known = append(known, a.Domains...)
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	e := kinds.Errorf(kinds.UnknownDomain, "no attached agent takes the domain %q: choose one of %s, or none", domain, strings.Join(known, ", "))
	if details, err := json.Marshal(map[string][]string{"domains": known}); err == nil {
		e.Details = details
	}
	return e
}

// Takers returns who wants a message: of a notify those whose topics match, of
// others all; or the one that is named.
func (r *Registry) Takers(kind, topic, name string) []*Agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Agent
	for _, a := range r.attached {
		if a.takes(kind) && (name == "" || a.Name == name) && (topic == "" || LongestMatch(a.Topics, topic) >= 0) {
			all = append(all, a)
		}
	}
	return all
}
