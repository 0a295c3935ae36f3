package peers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/settings"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
)

// Resolve returns the trusted peer that ref names. The error begins with op. It tells a stranger from a blocked
// key, so it is only for the owner.
func (s *Service) Resolve(op, ref string) (identity.Peer, error) {
	who, err := s.Trust.Resolve(ref)
	if err == nil {
		return who, nil
	}
	if _, unknown := errors.AsType[*identity.UnknownPeerError](err); !unknown {
		return who, kinds.Errorf(kinds.UnknownPeer, "%s: %s", op, err)
	}
	if err := s.CheckNotBlocked(op, ref); err != nil {
		return who, err
	}
	for _, w := range s.listStrangers() {
		switch {
		case identity.MatchesClaim(ref, w.Claim):
			return who, kinds.Errorf(kinds.UnknownPeer, "%s: %q is what a stranger calls itself, and nothing of a stranger is taken: if it is the one you mean, acpctl trust %[2]s", op, ref)
		case len(ref) >= 6 && strings.HasPrefix(w.ID.String(), strings.ToLower(ref)):
			return who, kinds.Errorf(kinds.UnknownPeer, "%s: %q is the id of a stranger, and nothing of a stranger is taken: if it is the one you mean, acpctl trust %[2]s", op, ref)
		}
	}
	return who, kinds.Errorf(kinds.UnknownPeer, "%s: %s", op, err)
}

// ResolveAll returns the ids of the peers that a filter names. A guest gets nothing about blocked keys.
func (s *Service) ResolveAll(names []string, forGuest bool) ([]identity.ID, error) {
	if len(names) > local.MaxFilterItems {
		return nil, kinds.Errorf(kinds.Invalid, "peers: %d are too many: at most %d", len(names), local.MaxFilterItems)
	}
	ids := make([]identity.ID, 0, len(names))
	for _, name := range names {
		p, err := s.Trust.Resolve(name)
		if err != nil && !forGuest {
			if err := s.CheckNotBlocked("peers", name); err != nil {
				return nil, err
			}
		}
		if err != nil {
			return nil, kinds.Errorf(kinds.UnknownPeer, "peers: %s", err)
		}
		ids = append(ids, p.ID)
	}
	return ids, nil
}

// IsClaimed reports whether a stranger calls itself so.
func (s *Service) IsClaimed(name string) bool {
	return slices.ContainsFunc(s.listStrangers(), func(w peer.Pending) bool { return identity.MatchesClaim(name, w.Claim) })
}

// findBlocked finds the blocked key that ref means: by the name that it had, or by the beginning of its id.
func (s *Service) findBlocked(ref string) (identity.Block, bool) {
	digits := strings.ToLower(ref)
	for _, b := range s.Trust.Blocks() {
		if ref != "" && b.Name == ref || len(ref) >= 6 && strings.HasPrefix(b.ID.String(), digits) {
			return b, true
		}
	}
	return identity.Block{}, false
}

// CheckNotBlocked returns an error, which begins with op, if ref means a blocked key.
func (s *Service) CheckNotBlocked(op, ref string) error {
	if b, ok := s.findBlocked(ref); ok {
		return kinds.Errorf(kinds.UnknownPeer, "%s: %q was untrusted and is blocked: only its full id lifts that, acpctl trust %s", op, ref, b.ID)
	}
	return nil
}

// recordNameHolder records that a petname is that of p. It returns the id that had the name before, zero if
// none had.
func (s *Service) recordNameHolder(p identity.Peer) (before identity.ID) {
	s.namesMu.Lock()
	defer s.namesMu.Unlock()
	before = s.holders[p.Name]
	s.holders[p.Name] = p.ID
	return before
}

// warnOfNewNameHolder logs and returns a warning if settings that name a peer by this
// petname are now for another key than before. Else it returns "".
func (s *Service) warnOfNewNameHolder(p identity.Peer) string {
	before := s.recordNameHolder(p)
	if before.IsZero() || before == p.ID {
		return ""
	}
	which := s.Config().ListSettingsNaming(p.Name)
	if len(which) == 0 {
		return ""
	}
	warning := fmt.Sprintf("%s in config.yaml names %s, which was %s and is %s now: name peers by their ids there if that is not meant",
		strings.Join(which, ", "), p.Name, before.Label(), p.ID.Label())
	s.Log.Warn("settings pass to another key", "name", p.Name, "warning", warning)
	return warning
}

// describeKeptName explains why a peer that calls itself claim has that name with a number, and how it gets
// the name. It returns "" if another peer has the name.
func (s *Service) describeKeptName(p identity.Peer, claim string) string {
	claim = strings.ToLower(claim)
	number, isNumbered := strings.CutPrefix(p.Name, claim+"-")
	if !isNumbered || strings.Trim(number, "0123456789") != "" || s.Trust.IsNameTaken(claim) || !s.Trust.IsKeptFromClaims(claim) {
		return ""
	}
	why := "was that of a key that you untrusted"
	if which := s.Config().ListSettingsNaming(claim); len(which) > 0 {
		why = "is one that " + strings.Join(which, ", ") + " in config.yaml mentions"
	}
	return fmt.Sprintf("%s calls itself %s, and did not get that name, which %s: if it is that machine, acpctl trust %s --name %s; until then no rule for %s is for it, and it may send what any trusted peer may", p.Name, claim, why, p.ID, claim, claim)
}

// ListKeptNames describes the connected peers that have a number in their names because the name
// that they claim is kept from claims.
func (s *Service) ListKeptNames() (all []string) {
	for _, now := range s.Node.Peers() {
		if p, ok := s.Trust.FindPeer(now.ID); ok && p.Certificate == nil {
			if why := s.describeKeptName(p, now.Claim); why != "" && len(all) < settings.MaxNamesInWarning {
				all = append(all, why)
			}
		}
	}
	return all
}
