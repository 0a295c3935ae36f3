package peers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

const (
	pinsPause    = time.Second     // of a pin for others, before all of them are written
	removalRetry = 2 * time.Second // between attempts to remove what the disk still has
)

// Removal removes a part of what an untrusted peer has left on the disk.
type Removal struct {
	Part   string // as client.Untrusted names it
	Remove func(ctx context.Context, id identity.ID, name string) error
}

// leftovers holds the untrusted peers whose data could not be removed completely from the disk yet.
type leftovers struct {
	names sync.Map    // the names that they had, by id
	wake  pace.Signal // set if something is left

	// removing is held while what a peer has left is removed, and while one is trusted
	// again: so nothing is removed that came under the new trust.
	removing sync.Mutex
}

func (l *leftovers) add(id identity.ID, name string) {
	l.names.Store(id, name)
	l.wake.Set()
}

func (l *leftovers) get(id identity.ID) (name string, ok bool) {
	known, ok := l.names.Load(id)
	name, _ = known.(string)
	return name, ok
}

// AddLeftover makes Run remove what an untrusted peer has left on the disk.
func (s *Service) AddLeftover(id identity.ID) { s.leftovers.add(id, s.Trust.NameOf(id)) }

// serveUntrust blocks a key, ends the invitation that it has used, also for those who could still
// join by it, and forgets what it sent.
// It closes the connections without waiting for a disk. It tries to write every part; what
// fails is tried again until it is written, and the answer names it. A caller that leaves
// stops nothing of it.
func (s *Service) serveUntrust(ctx context.Context, _ *local.Conn, p *client.UntrustParams) (any, error) {
	ctx = context.WithoutCancel(ctx)
	who, err := s.Trust.Resolve(p.Peer)
	if err != nil {
		met, err := s.findTrustCandidate("untrust", p.Peer)
		if b, ok := s.findBlocked(p.Peer); err != nil && ok {
			met.ID, err = b.ID, nil // called again, by the name that it had
		}
		if err != nil {
			return nil, err
		}
		if who = s.newPeerToTrust(met); s.Trust.IsBlocked(who.ID) {
			who.Name = s.Trust.NameOf(who.ID)
		}
	}
	already := s.Trust.IsBlocked(who.ID)
	if who.ID == s.Self {
		return nil, kinds.Errorf(kinds.Invalid, "untrust: %s is this daemon itself: name the other one", s.Self.Label())
	}
	if err := s.Trust.Untrust(who.ID); err != nil {
		return nil, explainTrustError("untrust", err)
	}
	s.leftovers.add(who.ID, who.Name) // first: if the peer is trusted again meanwhile, that removes what is left
	s.forget(who.ID)                  // before the log, which may be slow
	s.Log.Info("untrusted", "peer", who.ID.Label(), "name", who.Name)

	var left unwrittenParts
	_ = s.Reserve.RunWithReserve(func() error { // not before: it asks the disk, and that may be slow
		left = nil
		left.add(client.PartTrust, s.Trust.Save())
		s.leftovers.removing.Lock()
		defer s.leftovers.removing.Unlock()
		if _, more := s.leftovers.get(who.ID); more {
			left = append(left, s.removeFromDisk(ctx, who.ID, who.Name)...)
		}
		return left.joinErrors()
	})
	answer := &client.Untrusted{ID: who.ID, Name: who.Name, Already: already}
	for _, u := range left {
		answer.Unwritten = append(answer.Unwritten, u.part)
		answer.Reason = ownwords.Of(u.err)
		s.Log.Error("untrust: not on disk yet, and tried again until it is", "peer", who.ID.Label(), "name", who.Name, "part", u.part, "err", u.err)
	}
	return answer, nil
}

// unwrittenParts lists the parts of an untrust that the disk did not take, in the order in
// which they were tried.
type unwrittenParts []unwrittenPart

type unwrittenPart struct {
	part string
	err  error
}

// add adds a part if err is not nil.
func (parts *unwrittenParts) add(part string, err error) {
	if err != nil {
		*parts = append(*parts, unwrittenPart{part, err})
	}
}

// joinErrors returns the errors of all parts as one, or nil.
func (parts unwrittenParts) joinErrors() (all error) {
	for _, p := range parts {
		all = errors.Join(all, p.err)
	}
	return all
}

// forget closes the connections of a peer and forgets what no disk is needed for.
func (s *Service) forget(id identity.ID) {
	s.Node.Disconnect(id)
	s.Forget(id)
	s.refusers.Delete(id)
	s.Addresses.Update(id)
	s.Node.Invitations().Revoke(func(o identity.InvitationInfo) bool { return slices.Contains(o.UsedBy, id) })
}

// removeFromDisk removes from the disk what an untrusted peer has left there: all parts in
// their order, even if one fails. It returns those that failed. The caller holds
// leftovers.removing.
func (s *Service) removeFromDisk(ctx context.Context, id identity.ID, name string) (left unwrittenParts) {
	for _, r := range s.Removals() {
		left.add(r.Part, r.Remove(ctx, id, name))
	}
	if len(left) > 0 {
		s.leftovers.add(id, name)
	} else {
		s.leftovers.names.Delete(id)
	}
	return left
}

// trustAfterCleanup trusts a peer, after it has removed what an untrust has left of it.
func (s *Service) trustAfterCleanup(ctx context.Context, p identity.Peer) (_ identity.Peer, err error) {
	s.leftovers.removing.Lock()
	defer s.leftovers.removing.Unlock()
	if err := s.cleanUpBeforeTrust(ctx, p.ID); err != nil {
		return p, err
	}
	return s.Trust.Trust(p)
}

// trustAllAfterCleanup does with all of peers what trustAfterCleanup does with one, and lifts no
// block. It trusts all of them by one write, or none.
func (s *Service) trustAllAfterCleanup(ctx context.Context, peers []identity.Peer) ([]identity.Peer, error) {
	s.leftovers.removing.Lock()
	defer s.leftovers.removing.Unlock()
	for _, p := range peers {
		if s.Trust.IsBlocked(p.ID) {
			continue // TrustAll refuses it
		}
		if err := s.cleanUpBeforeTrust(ctx, p.ID); err != nil {
			return nil, ownwords.Errorf("%s: %w", p.Name, err)
		}
	}
	return s.Trust.TrustAll(peers)
}

// cleanUpBeforeTrust removes what an untrust has left of a peer. The caller holds
// leftovers.removing.
func (s *Service) cleanUpBeforeTrust(ctx context.Context, id identity.ID) error {
	name, left := s.leftovers.get(id)
	if !left {
		return nil
	}
	if failed := s.removeFromDisk(ctx, id, name); len(failed) > 0 {
		return ownwords.Errorf("what it sent before it was untrusted cannot be removed: free some space and repeat it: %w", failed[0].err)
	}
	return nil
}

// runLeftoverRemoval retries the writes in which untrust failed, until ctx ends. The next start finds what is
// left then.
func (s *Service) runLeftoverRemoval(ctx context.Context) error {
	for pace.Gather(ctx, s.leftovers.wake, removalRetry) == nil {
		for id := range s.leftovers.names.Range {
			_ = s.Reserve.RunWithReserve(func() error { return s.removeLeftoversOf(ctx, id.(identity.ID)) }) // what fails is tried again
		}
	}
	return nil
}

func (s *Service) removeLeftoversOf(ctx context.Context, id identity.ID) error {
	s.leftovers.removing.Lock()
	defer s.leftovers.removing.Unlock()
	name, left := s.leftovers.get(id)
	if !left { // trusted again meanwhile
		return nil
	}
	parts := s.removeFromDisk(ctx, id, name)
	for _, p := range parts {
		s.Log.Debug("untrust: not on disk yet", "peer", id.Label(), "part", p.part, "err", p.err)
	}
	if _, left := s.leftovers.get(id); !left {
		s.Log.Info("untrust: all that it left is removed", "peer", id.Label(), "name", name)
	}
	return parts.joinErrors()
}
