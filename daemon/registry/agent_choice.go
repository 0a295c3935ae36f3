package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// RetryAfterMS is the time after which a peer may ask again if an agent was full, in
// milliseconds.
const RetryAfterMS = 1000

// ConfirmTime bounds the wait for an agent's confirmation that it has a message.
const ConfirmTime = 4 * time.Second

// formatRequestCount returns n requests in words.
func formatRequestCount(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

// ShareError is the error for a peer that has as many places of an agent as one peer may have
// while others are connected, or for peers that the owner does not trust, if they have as many as they
// may have together.
type ShareError struct {
	agent   string
	n       int
	ofFleet bool
}

func (e *ShareError) Error() string {
	if e.ofFleet {
		return fmt.Sprintf("agent %s works on %s of certified peers, the most that it takes from them while a trusted peer is connected (budget: %s)", e.agent, formatRequestCount(e.n), budget.Places.Name)
	}
	return fmt.Sprintf("agent %s works on %s of this peer, as many as it takes of one while others are connected (budget: %s)", e.agent, formatRequestCount(e.n), budget.Places.Name)
}

// OwnWords returns the text.
func (e *ShareError) OwnWords() string { return e.Error() }

// ReserveAgent chooses the agent for a query or delegate of a peer and reserves a place of it,
// which the caller gives back with ReleasePlace. If all is set, the peer may have every place;
// else it gets a [*ShareError] instead of the last one. Of a session it never has more than half.
// While a trusted peer is connected, certified peers never have more than half of the places together.
//
// ReserveAgent takes the agent that is named, else the one with the longest matching domain, of
// those the least busy, of those the last attached. A session is taken only if it is named: see
// [Registry.FindSessions].
func (r *Registry) ReserveAgent(from identity.ID, all bool, kind, domain, name string) (*Reservation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var best *Agent
	var bestMatch int
	candidates := 0
	for _, a := range r.attached {
		if !a.takesKind(kind) || name != "" && a.Name != name || name == "" && a.IsSession() {
			continue
		}
		candidates++
		match := 0
		if domain != "" && name == "" {
			if match = MatchLongestDomain(a.Domains, domain); match < 0 {
				continue
			}
		}
		if best == nil || match > bestMatch || match == bestMatch && r.isPreferred(a, best) {
			best, bestMatch = a, match
		}
	}
	switch {
	case best != nil && r.countActive(best) >= best.MaxConcurrent:
		e := kinds.Errorf(kinds.Overloaded, "agent %s works on %s, as many as it takes: try again later", best.Name, formatRequestCount(r.countActive(best)))
		e.RetryAfterMS = RetryAfterMS
		return nil, e
	case best != nil && r.countActiveFor(best, from) >= best.countPlacesOfOne(all):
		return nil, &ShareError{agent: best.Name, n: r.countActiveFor(best, from)}
	case best != nil && r.isFleetShareTaken(best, from):
		return nil, &ShareError{agent: best.Name, n: r.countActiveForFleet(best, ""), ofFleet: true}
	case best != nil:
		best.running++
		best.runningOf[from]++
		return &Reservation{Agent: best, peer: from}, nil
	case candidates > 0:
		return nil, r.newUnknownDomainError(kind, domain)
	case name != "":
		return nil, kinds.Errorf(kinds.NoAgent, "no agent %q is attached that takes a %s: name another, or none", name, describeMessageKind(kind))
	}
	return nil, kinds.Errorf(kinds.NoAgent, "no agent is attached that takes a %s: on that machine, "+kinds.RemedyNoAgent, describeMessageKind(kind))
}

// countPlacesOfOne returns how many places of the agent one peer may have; all says whether it
// may have those of others. Of a session it has half, since those who come later would wait
// until its user has worked for the first one.
func (a *Agent) countPlacesOfOne(all bool) int {
	switch {
	case a.IsSession():
		return max(a.MaxConcurrent/2, 1)
	case all:
		return a.MaxConcurrent
	}
	return max(a.MaxConcurrent-1, 1)
}

// describeMessageKind returns what people call a message of a kind for which an agent is chosen.
func describeMessageKind(kind string) string {
	if kind == kinds.KindDelegate {
		return "delegation"
	}
	return kind
}

// countActiveFor returns how many requests and delegations of one peer an agent works on. For a certified
// peer it adds those of all keys with its name. The caller holds mu.
func (r *Registry) countActiveFor(a *Agent, from identity.ID) int {
	if name, ok := r.findCertifiedName(from); ok && name != "" {
		return r.countActiveForFleet(a, name)
	}
	return a.runningOf[from] + r.accepted[a.Name][from]
}

// isFleetShareTaken reports whether a peer is certified, and such peers have half of the agent's places
// together, or its only one, while a trusted peer is connected. The caller holds mu.
func (r *Registry) isFleetShareTaken(a *Agent, from identity.ID) bool {
	_, certified := r.findCertifiedName(from)
	return certified && r.countActiveForFleet(a, "") >= max(a.MaxConcurrent/2, 1) && r.IsTrustedConnected()
}

// countActiveForFleet returns how many requests and delegations an agent works on for all certified peers
// with a name, or for all certified peers if name is "". The caller holds mu.
func (r *Registry) countActiveForFleet(a *Agent, name string) (sum int) {
	for _, by := range []map[identity.ID]int{a.runningOf, r.accepted[a.Name]} {
		for id, n := range by {
			if of, ok := r.findCertifiedName(id); ok && (name == "" || of == name) {
				sum += n
			}
		}
	}
	return sum
}

// findCertifiedName returns the name of a peer that the owner does not trust.
func (r *Registry) findCertifiedName(id identity.ID) (string, bool) {
	if r.Certified == nil {
		return "", false
	}
	return r.Certified(id)
}

// isPreferred reports whether a, which attached after b, is chosen before b. Their domains match
// equally: one with a free place is first, then the less busy, then the later. The caller
// holds mu.
func (r *Registry) isPreferred(a, b *Agent) bool {
	aFull, bFull := r.countActive(a) >= a.MaxConcurrent, r.countActive(b) >= b.MaxConcurrent
	if aFull != bFull {
		return bFull
	}
	return r.countActive(a) <= r.countActive(b)
}

// MatchLongestDomain returns the length of the longest of domains that matches: 0 if there are no
// domains, -1 if no domain matches.
func MatchLongestDomain(domains []string, domain string) int {
	if len(domains) == 0 {
		return 0
	}
	n := -1
	for _, d := range domains {
		if kinds.IsUnderDomain(domain, d) {
			n = max(n, len(d))
		}
	}
	return n
}

// newUnknownDomainError returns the error that names the domains there are. The caller holds mu.
func (r *Registry) newUnknownDomainError(kind, domain string) error {
	var known []string
	for _, a := range r.attached {
		if a.takesKind(kind) && !a.IsSession() {
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

// FindSessions returns the sessions that take a query or delegate without an agent's name:
// those with the longest matching domain first, of these those with a free place, then the
// less busy, then the later attached. Of those of one program in one directory, the one that began last
// goes first.
func (r *Registry) FindSessions(kind, domain string) []*Agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Agent
	for _, a := range r.attached {
		if a.IsSession() && a.takesKind(kind) && (domain == "" || MatchLongestDomain(a.Domains, domain) >= 0) {
			all = append(all, a)
		}
	}
	slices.Reverse(all) // the last attached first
	slices.SortStableFunc(all, func(a, b *Agent) int {
		if domain != "" {
			if n := MatchLongestDomain(b.Domains, domain) - MatchLongestDomain(a.Domains, domain); n != 0 {
				return n
			}
		}
		aFull, bFull := r.countActive(a) >= a.MaxConcurrent, r.countActive(b) >= b.MaxConcurrent
		switch {
		case aFull && !bFull:
			return 1
		case bFull && !aFull:
			return -1
		}
		return r.countActive(a) - r.countActive(b)
	})
	for i := range all {
		for j := i + 1; j < len(all); j++ {
			if r.replaces(all[j], all[i]) {
				all[i], all[j] = all[j], all[i]
			}
		}
	}
	return all
}

// replaces reports whether a session is of the same program in the same directory as another one, began
// later, and has a free place or needs none. Its user has probably left the other one. The caller holds mu.
func (r *Registry) replaces(a, b *Agent) bool {
	return a.Session.Folder != "" && a.Session.Folder == b.Session.Folder && a.Session.Harness == b.Session.Harness &&
		a.Session.Begun.After(b.Session.Begun.Time) && (r.countActive(a) < a.MaxConcurrent || r.countActive(b) >= b.MaxConcurrent)
}

// FindTakers returns the agents that take a kind: all, or the one that is named. If there
// is a topic, theirs match it.
func (r *Registry) FindTakers(kind, topic, name string) []*Agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Agent
	for _, a := range r.attached {
		if a.takesKind(kind) && (name == "" || a.Name == name) && (topic == "" || MatchLongestDomain(a.Topics, topic) >= 0) {
			all = append(all, a)
		}
	}
	return all
}
