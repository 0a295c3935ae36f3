package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// maxIntroduced bounds the keys that are dialled for a name that no peer has yet.
const maxIntroduced = 8

// resolveOrIntroduce returns the peer that ref means. If none is known, it dials those keys that could
// be it by a certificate: the one with that id, those that have an address in config.yaml, those
// on the network that call themselves so, and the one that has that name on a relay. It blocks as a call
// does, until one is the peer, for searchTime() at most. For what the settings do not let the caller call,
// nobody is asked or dialled.
func (d *Daemon) resolveOrIntroduce(ctx context.Context, s *local.Conn, ref string, searchTime func() time.Duration) (identity.Peer, error) {
	p, err := d.trust.Resolve(ref)
	if err == nil && p.Certificate != nil && p.Name == ref {
		if err = d.relays.Names.CheckShared(ref); err != nil {
			return identity.Peer{}, err
		}
	}
	if _, unknown := errors.AsType[*identity.UnknownPeerError](err); !unknown || !d.trust.HasAuthorities() {
		return p, err
	}
	candidates, ask := d.listCandidates(ref), d.mayAskForName(ref)
	if len(candidates) == 0 && !ask {
		return p, err
	}
	if err := d.outgoing.CheckMaySearch(s, ref); err != nil {
		return p, err
	}
	dialling, stop := context.WithTimeout(ctx, searchTime())
	defer stop()
	var dials errgroup.Group
	failures := make([]error, len(candidates))
	if len(candidates) > 0 { // whoever holds a slot waits for no other one
		dials.Go(func() error {
			free, ok := d.relays.Names.TakeSlot(dialling, s.IsGuest)
			if !ok {
				failures[0] = kinds.Errorf(kinds.Overloaded, "too many peers are being looked for: try again").WithDelivered(kinds.DeliveredNo)
				return nil
			}
			defer free()
			var all errgroup.Group
			for i, id := range candidates {
				all.Go(func() error {
					failures[i] = d.node.Introduce(dialling, id)
					if _, err := d.trust.Resolve(ref); err == nil {
						stop()
					}
					return nil
				})
			}
			return all.Wait()
		})
	}
	var named identity.Peer
	var namedErr error
	if ask {
		dials.Go(func() error {
			if named, namedErr = d.relays.Introduce(dialling, ref, s.IsGuest); namedErr == nil {
				stop()
			}
			return nil
		})
	}
	_ = dials.Wait()
	if !named.ID.IsZero() {
		return named, nil
	}
	p, err = d.trust.Resolve(ref)
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
func (d *Daemon) mayAskForName(name string) bool {
	_, blocked := d.findBlockedPeer(name)
	return !blocked && !d.isOwnCertifiedName(name) && d.relays.CanAsk(name)
}

// listCandidates returns the keys that are no peers, and could be the one that ref means by a
// certificate: an id, or the name of one.
func (d *Daemon) listCandidates(ref string) (all []identity.ID) {
	add := func(id identity.ID) {
		_, known := d.trust.FindPeer(id)
		if !known && !d.trust.IsBlocked(id) && id != d.id && !slices.Contains(all, id) && len(all) < maxIntroduced {
			all = append(all, id)
		}
	}
	entries := d.table.Entries()
	if id, err := identity.ParseID(strings.ToLower(ref)); err == nil {
		if d.node.HasLinkTo(id) || slices.ContainsFunc(entries, func(e discovery.Entry) bool { return e.ID == id }) {
			add(id)
		}
		return all
	}
	if !d.config.Load().IsOfAuthority(ref) {
		return nil
	}
	claim, _, _ := strings.Cut(ref, ".")
	configured := d.config.Load().Peers
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
