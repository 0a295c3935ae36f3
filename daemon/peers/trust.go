package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
)

// serveTrust trusts a stranger, or changes the name or addresses of a trusted peer. The
// address from which a stranger called, or its address from when it was trusted before, is
// remembered like that of any connection. Only addresses that a person gave are configured. If the list of
// addresses is empty, the daemon forgets them, and where the peer was, unless it is there now.
func (s *Service) serveTrust(ctx context.Context, _ *local.Conn, p *client.TrustParams) (any, error) {
	met, err := s.findTrustCandidate("trust", p.Peer)
	if err != nil {
		return nil, err
	}
	if met.ID == s.Self {
		return nil, kinds.Errorf(kinds.Invalid, "trust: %s is this daemon itself: name the other one", s.Self.Label())
	}
	who := s.newPeerToTrust(met)
	if p.Name != "" {
		if err := identity.CheckName(p.Name); err != nil {
			return nil, kinds.Errorf(kinds.Invalid, "trust: name: %s", err)
		}
		who.Name = p.Name
	}
	if p.Addrs != nil { // empty to remove those that it has
		if err := identity.CheckAddrs(p.Addrs); err != nil {
			return nil, kinds.Errorf(kinds.Invalid, "trust: addrs: %s", err)
		}
		who.Addrs = p.Addrs
	}
	if who, err = s.trustAfterCleanup(ctx, who); err != nil {
		return nil, explainTrustError("trust", err)
	}
	if now, up := s.Node.Peer(who.ID); p.Addrs != nil && len(p.Addrs) == 0 && !(up && now.Path == peer.Direct) {
		s.Addresses.ForgetLast(who.ID)
		s.Node.ForgetAddr(who.ID)
	}
	warning := s.beginTrust(who, met)
	if p.Name == "" {
		warning = cmp.Or(warning, s.describeKeptName(who, met.Claim))
	}
	return &client.NamedPeer{ID: who.ID, Name: who.Name, Warning: warning}, nil
}

// beginTrust publishes that the owner trusts a peer from now on, and connects to it, also at the address at
// which it was met. It returns the warning of [Service.warnOfNewNameHolder].
func (s *Service) beginTrust(who identity.Peer, met peer.Pending) (warning string) {
	s.Log.Info("trusted", "peer", who.ID.Label(), "name", who.Name)
	s.Publish(client.EventTrust, who.ID, who.Name, time.Now(), nil)
	addr := ""
	if met.Path == peer.Direct {
		addr = met.Addr
	}
	s.Addresses.RecordTrust(who.ID, addr, met.At)
	s.Node.Connect(who.ID)
	return s.warnOfNewNameHolder(who)
}

// findTrustCandidate returns the daemon that a person means by ref: any full id, a trusted peer,
// or the one stranger with that claim or prefix of its id. The name in a certificate is never a
// claim. For all but strangers it returns only the id.
func (s *Service) findTrustCandidate(op, ref string) (peer.Pending, error) {
	var found []peer.Pending
	digits := strings.ToLower(ref)
	whole, noID := identity.ParseID(digits)
	for _, w := range s.listStrangers() {
		if noID == nil && w.ID == whole {
			return w, nil
		}
		if identity.MatchesClaim(ref, w.Claim) || len(ref) >= 6 && strings.HasPrefix(w.ID.String(), digits) {
			found = append(found, w)
		}
	}
	if noID == nil {
		return peer.Pending{ID: whole}, nil
	}
	known, err := s.Trust.Resolve(ref)
	if err == nil {
		return peer.Pending{ID: known.ID}, nil
	}
	switch len(found) {
	case 0:
		if err := s.CheckNotBlocked(op, ref); err != nil {
			return peer.Pending{}, err
		}
		if unknown, ok := errors.AsType[*identity.UnknownPeerError](err); !ok || len(unknown.Near) > 0 {
			return peer.Pending{}, explainTrustError(op, err) // a trusted peer was meant
		}
		if s.Config().IsOfAuthority(ref) {
			return peer.Pending{}, s.newNoCertificateError(op, ref)
		}
		return peer.Pending{}, kinds.Errorf(kinds.UnknownPeer, "%s: %q names nobody who has called or is on the network: give the full id, 64 hex digits, or see acpctl peers", op, ref)
	case 1:
		return found[0], nil
	}
	ids := make([]string, len(found))
	for i, w := range found {
		ids[i] = w.ID.String()
	}
	return peer.Pending{}, kinds.Errorf(kinds.UnknownPeer, "%s: %q names several strangers: give the full id, one of %s", op, ref, strings.Join(ids, ", "))
}

// newNoCertificateError returns the error for a name of an authority while no key with a certificate of that name is
// known.
func (s *Service) newNoCertificateError(op, ref string) error {
	remedy := "give the full id, 64 hex digits"
	if op == "untrust" {
		own, authority, _ := strings.Cut(ref, ".")
		line := "name " + own
		refusal := fmt.Sprintf("write \"revoked: revoked.txt\" under organisation.authorities.%s in config.yaml, and the line %q into %s", authority, line, filepath.Join(s.Dir, "revoked.txt"))
		if file := s.Config().Organisation.Authorities[authority].Revoked; file != "" {
			path, _ := config.FindStateFile(s.Dir, file) // it was read
			refusal = fmt.Sprintf("write the line %q into %s", line, path)
		}
		remedy = fmt.Sprintf("to refuse that name, whatever key has it, %s, then acpctl reload; its full id blocks that key", refusal)
	}
	return kinds.Errorf(kinds.UnknownPeer, "%s: no key shows a certificate with the name %q now: %s", op, ref, remedy)
}

// newPeerToTrust returns a stranger as a peer to trust: under the name that its claim may give
// it, and with the post-quantum key that it showed when it called. A peer by its certificate has both from that.
func (s *Service) newPeerToTrust(met peer.Pending) identity.Peer {
	p := identity.Peer{ID: met.ID, PQ: met.PQ, Name: s.Trust.FindNameForClaim(met.Claim)}
	certified := ""
	if known, ok := s.Trust.FindPeer(met.ID); ok && known.Certificate != nil { // what the authority certified stays
		p.PQ, certified = known.PQ, known.Name
	} else if b, ok := s.Trust.FindBlock(met.ID); ok {
		certified = b.Name
	}
	if own, _, ok := strings.Cut(certified, "."); ok {
		p.Name = s.Trust.FindNameForClaim(own)
	}
	return p
}

// explainTrustError returns an error of the trust store as one of the local API.
func explainTrustError(op string, err error) error {
	_, unknown := errors.AsType[*identity.UnknownPeerError](err)
	_, ambiguous := errors.AsType[*identity.AmbiguousError](err)
	_, shared := errors.AsType[*identity.SharedNameError](err)
	_, taken := errors.AsType[*identity.NameTakenError](err)
	_, blocked := errors.AsType[*identity.BlockedError](err)
	code := kinds.Internal
	switch {
	case unknown, ambiguous, shared:
		code = kinds.UnknownPeer
	case taken, blocked:
		code = kinds.Invalid
	case errors.Is(err, identity.ErrTrustFull), errors.Is(err, identity.ErrInvitationsFull), disk.IsFullError(err):
		code = kinds.Overloaded
	}
	text := ownwords.Of(err)
	if !strings.HasPrefix(text, op) {
		text = op + ": " + text
	}
	if disk.IsFullError(err) && !strings.Contains(text, "free some space") {
		text += ": free some space on the disk of the state directory, then try again"
	}
	return kinds.Errorf(code, "%s", text)
}
