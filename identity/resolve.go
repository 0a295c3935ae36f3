package identity

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
)

// UnknownPeerError says that a reference names no peer. Near are up to
// three petnames that may have been meant.
type UnknownPeerError struct {
	Ref              string
	Near             []string
	MissingAuthority string // that Ref would need as a certified name; "" if it is configured, or Ref is no certified name
}

func (e *UnknownPeerError) Error() string {
	remedy := "acpctl peers lists those that are"
	switch {
	case isShortHexPrefix(e.Ref):
		remedy = "the beginning of an id has six or more digits; " + remedy
	case e.MissingAuthority != "":
		remedy = fmt.Sprintf("a name with a dot comes from an authority, and config.yaml has no authority %s under organisation.authorities; %s", e.MissingAuthority, remedy)
	}
	return fmt.Sprintf("no peer %q is known: %s", CleanClaim(e.Ref), formatNear(e.Near, remedy))
}

// OwnWords returns the text.
func (e *UnknownPeerError) OwnWords() string { return e.Error() }

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

// OwnWords returns the text.
func (e *AmbiguousError) OwnWords() string { return e.Error() }

// SharedNameError says that several keys have a valid certificate with one name, as in build-7.corp.
type SharedNameError struct {
	Name string
	IDs  []ID // in their order
}

func (e *SharedNameError) Error() string {
	ids := make([]string, len(e.IDs))
	for i, id := range e.IDs {
		ids[i] = id.String()
	}
	_, authority, _ := strings.Cut(e.Name, ".")
	return fmt.Sprintf("%q is the name of %d keys with a certificate, %s: name the right one by its id, and have the other's certificate revoked by %s, or acpctl untrust its id",
		e.Name, len(e.IDs), strings.Join(ids, " and "), authority)
}

// OwnWords returns the text.
func (e *SharedNameError) OwnWords() string { return e.Error() }

// Resolve finds the peer that ref means: by its exact petname, or the name that its certificate gives
// it, else by its id or a prefix of six digits or more that no other peer's id has. A person may type
// the digits in upper case. Errors are [*UnknownPeerError], [*AmbiguousError] and
// [*SharedNameError]. An exact petname costs no allocation.
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
	found = append(found, t.resolveCertified(ref)...)
	switch len(found) {
	case 0:
		unknown := &UnknownPeerError{Ref: ref, Near: SuggestNames(ref, s.listNames())}
		if _, authority, _ := strings.Cut(ref, "."); CheckCertifiedName(ref) == nil && len(t.ListAuthorityKeys(authority)) == 0 {
			unknown.MissingAuthority = authority
		}
		return Peer{}, unknown
	case 1:
		return found[0], nil
	}
	if found[0].Name == ref {
		shared := &SharedNameError{Name: ref}
		for _, p := range found {
			shared.IDs = append(shared.IDs, p.ID)
		}
		return Peer{}, shared
	}
	return Peer{}, &AmbiguousError{Ref: ref, Peers: found}
}

// resolveCertified finds what ref means among the peers that only have a certificate: the
// ones with that name, or those whose ids begin so.
func (t *TrustStore) resolveCertified(ref string) (found []Peer) {
	c := &t.certified
	if c.number.Load() == 0 {
		return nil
	}
	digits := strings.ToLower(ref)
	if !strings.Contains(ref, ".") {
		if id, err := ParseID(digits); err == nil {
			if p, ok := t.findCertified(id); ok {
				found = append(found, p)
			}
		} else if isHexPrefix(digits) {
			found = slices.DeleteFunc(t.CertifiedPeers(), func(p Peer) bool { return !p.ID.hasHexPrefix(digits) })
		}
		return found
	}
	c.mu.RLock()
	ids := slices.Clone(c.byName[ref])
	c.mu.RUnlock()
	sort.Slice(ids, func(i, j int) bool { return ids[i].Compare(ids[j]) < 0 })
	for _, id := range ids {
		if p, ok := t.findCertified(id); ok {
			found = append(found, p)
		}
	}
	return found
}

func (s *trustSnapshot) listNames() []string {
	var names []string
	for _, p := range s.Peers {
		names = append(names, p.Name)
	}
	return names
}

// SuggestNames returns those of names that ref may have meant, three at most: those that ref
// begins, that ref adds a hyphen and more to, or that are two edits away at most; or the
// one that differs only in case.
func SuggestNames(ref string, names []string) []string {
	const most = 3
	var near []string
	ref = strings.ToLower(ref)
	if len(ref) < 2 || len(ref) > MaxName {
		return nil
	}
	for _, name := range names {
		lower := strings.ToLower(name)
		if lower == ref {
			return []string{name}
		}
		begins := strings.HasPrefix(lower, ref) || strings.HasPrefix(ref, lower+"-")
		if begins || ownwords.CountEdits(lower, ref) <= min(2, len(ref)/2) {
			if near = append(near, name); len(near) == most {
				break
			}
		}
	}
	return near
}

// FormatSuggestion returns the question whether one of the names was meant that ref is close to,
// or else otherwise.
func FormatSuggestion(ref string, names []string, otherwise string) string {
	return formatNear(SuggestNames(ref, names), otherwise)
}

func formatNear(near []string, otherwise string) string {
	if len(near) == 0 {
		return otherwise
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}
