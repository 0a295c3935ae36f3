package identity

import (
	"fmt"
	"strings"
)

// UnknownPeerError says that a reference names no trusted peer. Near are up to
// three petnames that may have been meant.
type UnknownPeerError struct {
	Ref  string
	Near []string
}

func (e *UnknownPeerError) Error() string {
	remedy := "acpctl peers lists those that are trusted"
	if len(e.Near) > 0 {
		remedy = "did you mean " + strings.Join(e.Near, " or ") + "?"
	}
	return fmt.Sprintf("no trusted peer %q: %s", CleanClaim(e.Ref), remedy)
}

// AmbiguousError says that a reference is the beginning of several peers' ids.
type AmbiguousError struct {
	Ref   string
	Peers []Peer // by name
}

func (e *AmbiguousError) Error() string {
	var names []string
	for _, p := range e.Peers {
		names = append(names, p.Name+" ("+p.ID.Label()+")")
	}
	return fmt.Sprintf("%q begins the ids of %s: use a name or more digits", e.Ref, strings.Join(names, ", "))
}

// Resolve finds the trusted peer that ref means: by its exact petname, else by its id or
// a prefix of six digits or more that no other trusted peer's id has. A person may type
// the digits in upper case. Errors are [*UnknownPeerError] and [*AmbiguousError]. An exact
// name costs no allocation.
func (t *TrustStore) Resolve(ref string) (Peer, error) {
	s := t.current.Load()
	if i, ok := s.byName[ref]; ok {
		return s.Peers[i], nil
	}
	var found []Peer
	if digits := strings.ToLower(ref); isHexPrefix(digits) {
		for _, p := range s.Peers {
			if p.ID.hasHexPrefix(digits) {
				found = append(found, p)
			}
		}
	}
	switch len(found) {
	case 0:
		return Peer{}, &UnknownPeerError{Ref: ref, Near: s.suggestNames(ref)}
	case 1:
		return found[0], nil
	}
	return Peer{}, &AmbiguousError{Ref: ref, Peers: found}
}

// suggestNames returns the names that ref begins or that are two edits away at most.
func (s *trustSnapshot) suggestNames(ref string) []string {
	const most = 3
	var names []string
	if len(ref) < 2 || len(ref) > MaxName {
		return nil
	}
	for _, p := range s.Peers {
		if strings.HasPrefix(p.Name, ref) || countEdits(p.Name, ref) <= min(2, len(ref)/2) {
			if names = append(names, p.Name); len(names) == most {
				break
			}
		}
	}
	return names
}

// countEdits is the Levenshtein distance of two short strings.
func countEdits(a, b string) int {
	var row [MaxName + 1]int
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
