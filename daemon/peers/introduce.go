package peers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// maxIntroduced bounds the keys that are dialled for a name that no peer has yet.
const maxIntroduced = 8

// Search is how a peer is looked for that is not known.
type Search struct {
	Ref       string // its name or id
	ForGuest  bool
	MaySearch func() error         // returns an error if the settings do not let the caller call such a peer
	Time      func() time.Duration // returns how long the search may take
}

// ResolveOrIntroduce returns the peer that the search means. If no peer is known for it, it dials the keys that
// could be that peer by a certificate: the key with that id, those that have an address in config.yaml, those
// on the network that claim that name, and the key that has that name on a relay. It blocks as a call does until
// one of them is the peer, at most for Time. For a peer that the caller may not call it neither asks nor dials anybody.
func (s *Service) ResolveOrIntroduce(ctx context.Context, search Search) (identity.Peer, error) {
	ref := search.Ref
	p, err := s.Trust.Resolve(ref)
	if _, unknown := errors.AsType[*identity.UnknownPeerError](err); !unknown || !s.Trust.HasAuthorities() {
		return p, err
	}
	candidates, ask := s.listCandidates(ref), s.mayAskForName(ref)
	if len(candidates) == 0 && !ask {
		return p, err
	}
	if err := search.MaySearch(); err != nil {
		return p, err
	}
	dialling, stop := context.WithTimeout(ctx, search.Time())
	defer stop()
	end, ok := s.Relays.Names.BeginSearch(dialling, search.ForGuest)
	if !ok {
		return p, kinds.Errorf(kinds.Overloaded, "too many peers are being looked for: try again").WithDelivered(kinds.DeliveredNo)
	}
	defer end()
	var dials errgroup.Group
	failures := make([]error, len(candidates))
	for i, id := range candidates {
		dials.Go(func() error {
			failures[i] = s.Node.Introduce(dialling, id)
			if _, err := s.Trust.Resolve(ref); err == nil {
				stop()
			}
			return nil
		})
	}
	var named identity.Peer
	var namedErr error
	if ask {
		dials.Go(func() error {
			if named, namedErr = s.Relays.Introduce(dialling, ref); namedErr == nil {
				stop()
			}
			return nil
		})
	}
	_ = dials.Wait()
	if !named.ID.IsZero() {
		return named, nil
	}
	p, err = s.Trust.Resolve(ref)
	if _, unknown := errors.AsType[*identity.UnknownPeerError](err); !unknown {
		return p, err
	}
	if namedErr != nil {
		return p, namedErr
	}
	for _, failure := range failures { // one may be the peer that is meant, and not be there
		if failure != nil && kinds.AsError(failure).Code == kinds.Overloaded {
			return p, failure
		}
		if failure != nil && kinds.AsError(failure).Code != kinds.UnknownPeer {
			return p, kinds.Errorf(kinds.Unreachable, "no peer %q is known, and one that could be it does not answer: %s", identity.CleanClaim(ref), failure).WithDelivered(kinds.DeliveredNo)
		}
	}
	return p, err
}

// mayAskForName reports whether relays are asked who has a name.
func (s *Service) mayAskForName(name string) bool {
	_, blocked := s.findBlocked(name)
	return !blocked && !s.Organisation.IsOwnName(name) && s.Relays.CanAsk(name)
}

// listCandidates returns the keys that are no peers, and could be the one that ref means by a
// certificate: an id, or the name of one.
func (s *Service) listCandidates(ref string) (all []identity.ID) {
	add := func(id identity.ID) {
		_, known := s.Trust.FindPeer(id)
		if !known && !s.Trust.IsBlocked(id) && id != s.Self && !slices.Contains(all, id) && len(all) < maxIntroduced {
			all = append(all, id)
		}
	}
	entries := s.Addresses.List()
	if id, err := identity.ParseID(strings.ToLower(ref)); err == nil {
		if s.Node.HasLinkTo(id) || slices.ContainsFunc(entries, func(e discovery.Entry) bool { return e.ID == id }) {
			add(id)
		}
		return all
	}
	if !s.Config().IsOfAuthority(ref) {
		return nil
	}
	claim, _, _ := strings.Cut(ref, ".")
	configured := s.Config().Peers
	for _, id := range listIDsForName(entries, claim, func(id identity.ID) bool { _, ok := configured[id.String()]; return ok }) {
		add(id)
	}
	return all
}

// listIDsForName returns the keys to which the owner has given an address, and then those that call
// themselves so, as anybody on the network may.
func listIDsForName(entries []discovery.Entry, claim string, isConfigured func(identity.ID) bool) (ids []identity.ID) {
	var callThemselves []identity.ID
	for _, e := range entries {
		if isConfigured(e.ID) {
			ids = append(ids, e.ID)
		} else if strings.EqualFold(e.Claim, claim) {
			callThemselves = append(callThemselves, e.ID)
		}
	}
	return append(ids, callThemselves...)
}
