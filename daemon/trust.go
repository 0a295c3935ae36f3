package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
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

const maxInvited = 3 // addresses in an invitation

func (d *Daemon) serveInvite(_ context.Context, _ *local.Conn, p *client.InviteParams) (any, error) {
	if most := uint64(client.MaxInvitation / time.Second); p.ExpiresSecs > most {
		return nil, kinds.Errorf(kinds.Invalid, "invite: expires_secs: expected at most %d, which is 24 hours", most)
	}
	if p.Name != "" { // the petname of the joiner here
		if err := identity.CheckName(p.Name); err != nil {
			return nil, kinds.Errorf(kinds.Invalid, "invite: name: %s", err)
		}
	}
	if p.Uses > client.MaxInvitationUses {
		return nil, kinds.Errorf(kinds.Invalid, "invite: uses: expected at most %d", client.MaxInvitationUses)
	}
	relays, err := d.relays.ListInvited(p)
	if err != nil {
		return nil, err
	}
	if len(relays) == 0 && !p.NoRelay && d.node.StaysOnRelays() {
		return nil, kinds.Errorf(kinds.Invalid, "invite: direct is off, and there is no relay that an invitation can name: fix one that acpctl relay list shows, or use acpctl invite --no-relay, which names the addresses of this machine")
	}
	token, opened, err := d.node.Invitations().Issue(time.Duration(p.ExpiresSecs)*time.Second, p.Name, max(1, int(p.Uses)))
	if err != nil {
		return nil, explainTrustError("invite", err)
	}
	inv := identity.Invitation{ID: d.id, Addrs: d.listInvitedAddrs(relays), Relays: relays, Name: d.name, PQ: identity.HashPQ(d.key.PublicPQ()), Token: token}
	out := &client.Invitation{URI: inv.String(), ID: opened.ID, Expires: opened.Expires.UTC()}
	if p.NoRelay { // it may be for a daemon that reads only the long form
		out.URI = inv.LongString()
	}
	for _, r := range relays {
		out.Relays = append(out.Relays, r.URL)
		if r.Token != "" {
			out.Shared = append(out.Shared, r.URL)
		}
	}
	return out, nil
}

// listInvitedAddrs returns the addresses that an invitation names: none if peers are to learn none
// and a relay leads here.
func (d *Daemon) listInvitedAddrs(relays []identity.InvitedRelay) []string {
	if d.config.Start().Reach.Direct == config.Off && len(relays) > 0 {
		return nil
	}
	return chooseInvitedAddrs(d.node.LocalAddrs(), findNetworks())
}

// findNetworks returns which interface has each address of this machine, by the interface's number. It
// leaves out those whose network has no other machine now, as a bridge for containers that do not run.
func findNetworks() map[netip.Addr]int {
	networks := make(map[netip.Addr]int)
	all, _ := net.Interfaces() // without them, the addresses keep their order
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagRunning == 0 {
			continue
		}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				networks[prefix.Addr()] = i.Index
			}
		}
	}
	return networks
}

// chooseInvitedAddrs returns the addresses that fit into an invitation: first one of each network,
// then the others.
func chooseInvitedAddrs(addrs []string, networks map[netip.Addr]int) []string {
	var first, others []string
	seen := make(map[int]bool)
	for _, addr := range addrs {
		at, _ := netip.ParseAddrPort(addr) // a name is in no network
		if network := networks[at.Addr()]; network != 0 && !seen[network] {
			seen[network] = true
			first = append(first, addr)
		} else {
			others = append(others, addr)
		}
	}
	all := append(first, others...)
	return all[:min(len(all), maxInvited)]
}

// serveInvitations lists the open invitations, without their tokens, which only invite
// returns.
func (d *Daemon) serveInvitations(context.Context, *local.Conn, *local.NoParams) (any, error) {
	out := &client.Invitations{Invitations: []client.OpenInvitation{}}
	for _, o := range d.node.Invitations().List() {
		row := client.OpenInvitation{ID: o.ID, Expires: o.Expires.UTC(), Name: o.Name, Uses: o.Uses, Left: o.Uses - len(o.UsedBy)}
		for _, id := range o.UsedBy {
			row.Joined = append(row.Joined, client.NamedPeer{ID: id, Name: d.peerName(id)})
		}
		if o.Uses == 1 && len(row.Joined) == 1 {
			row.UsedBy = &row.Joined[0]
		}
		out.Invitations = append(out.Invitations, row)
	}
	return out, nil
}

// serveRevoke ends one invitation, or all. Nobody can join by it any more. A peer that has
// joined by it stays trusted.
func (d *Daemon) serveRevoke(_ context.Context, _ *local.Conn, p *client.RevokeParams) (any, error) {
	if (p.ID == "") == !p.All {
		return nil, kinds.Errorf(kinds.Invalid, "revoke: expected either id or all: true")
	}
	n := d.node.Invitations().Revoke(func(o identity.InvitationInfo) bool { return p.All || o.ID == p.ID })
	if n == 0 && !p.All {
		return nil, kinds.Errorf(kinds.NotFound, "revoke: no invitation %.64q is open: acpctl invite --list shows those that are", p.ID)
	}
	return &client.Revoked{Revoked: n}, nil
}

func (d *Daemon) serveJoin(ctx context.Context, _ *local.Conn, p *client.JoinParams) (any, error) {
	inv, err := identity.ParseInvitation(p.URI)
	if err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "join: %s", err)
	}
	who, err := d.relays.Join(ctx, inv, p.Relay)
	if err != nil {
		return nil, err
	}
	if kept := d.describeKeptName(identity.Peer{ID: who.ID, Name: who.Name}, inv.Name); kept != "" {
		who.Warning = strings.TrimPrefix(who.Warning+"; "+kept, "; ")
	}
	return who, nil
}

// serveTrust trusts a stranger, or changes the name or addresses of a trusted peer. The
// address from which a stranger called, or its address from when it was trusted before, is
// remembered like that of any connection. Only addresses that a person gave are configured. With an empty list,
// the daemon forgets them, and where the peer was if it is not there now.
func (d *Daemon) serveTrust(ctx context.Context, _ *local.Conn, p *client.TrustParams) (any, error) {
	met, err := d.findTrustCandidate("trust", p.Peer)
	if err != nil {
		return nil, err
	}
	if met.ID == d.id {
		return nil, kinds.Errorf(kinds.Invalid, "trust: %s is this daemon itself: name the other one", d.id.Label())
	}
	who := d.newPeerToTrust(met)
	if p.Name != "" {
		if err := identity.CheckName(p.Name); err != nil {
			return nil, kinds.Errorf(kinds.Invalid, "trust: name: %s", err)
		}
		who.Name = p.Name
	}
	if p.Addrs != nil { // empty: it has none any more
		if err := identity.CheckAddrs(p.Addrs); err != nil {
			return nil, kinds.Errorf(kinds.Invalid, "trust: addrs: %s", err)
		}
		who.Addrs = p.Addrs
	}
	if who, err = d.trustAfterCleanup(ctx, who); err != nil {
		return nil, explainTrustError("trust", err)
	}
	if now, up := d.node.Peer(who.ID); p.Addrs != nil && len(p.Addrs) == 0 && !(up && now.Path == peer.Direct) {
		d.lastConnections.forgetAddr(who.ID)
		d.node.ForgetAddr(who.ID)
	}
	warning := d.beginTrust(who, met)
	if p.Name == "" {
		warning = cmp.Or(warning, d.describeKeptName(who, met.Claim))
	}
	return &client.NamedPeer{ID: who.ID, Name: who.Name, Warning: warning}, nil
}

// beginTrust tells of a peer that the owner trusts now, and connects to it, also at the address at
// which it was met. It returns the warning of [Daemon.warnOfNewNameHolder].
func (d *Daemon) beginTrust(who identity.Peer, met peer.Pending) (warning string) {
	d.log.Info("trusted", "peer", who.ID.Label(), "name", who.Name)
	d.watch.Publish(client.EventTrust, who.ID, who.Name, time.Now(), nil)
	addr := d.lastConnections.takeOldAddr(who.ID)
	if met.Path == peer.Direct {
		addr = met.Addr
	}
	if last := d.lastConnections.get(who.ID); last.inMemory { // it has counted by its certificate
		addr, met.At = cmp.Or(addr, last.addr), last.at
	}
	if addr != "" {
		d.lastConnections.record(who.ID, addr, met.At)
	}
	d.updateAddrTable(who.ID)
	d.node.Connect(who.ID)
	return d.warnOfNewNameHolder(who)
}

// findTrustCandidate returns the daemon that a person means by ref: any full id, a trusted peer,
// or the one stranger with that claim or prefix of its id. No claim is the name of an authority's
// certificate. Of all but strangers it returns only the id.
func (d *Daemon) findTrustCandidate(op, ref string) (peer.Pending, error) {
	var found []peer.Pending
	digits := strings.ToLower(ref)
	whole, noID := identity.ParseID(digits)
	for _, s := range d.listStrangers() {
		if noID == nil && s.ID == whole {
			return s, nil
		}
		if identity.MatchesClaim(ref, s.Claim) || len(ref) >= 6 && strings.HasPrefix(s.ID.String(), digits) {
			found = append(found, s)
		}
	}
	if noID == nil {
		return peer.Pending{ID: whole}, nil
	}
	known, err := d.trust.Resolve(ref)
	if err == nil {
		return peer.Pending{ID: known.ID}, nil
	}
	switch len(found) {
	case 0:
		if b, ok := d.findBlockedPeer(ref); ok {
			return peer.Pending{}, newBlockedError(op, ref, b)
		}
		if unknown, ok := errors.AsType[*identity.UnknownPeerError](err); !ok || len(unknown.Near) > 0 {
			return peer.Pending{}, explainTrustError(op, err) // a trusted peer was meant
		}
		if d.config.Load().IsOfAuthority(ref) {
			return peer.Pending{}, d.newNoCertificateError(op, ref)
		}
		return peer.Pending{}, kinds.Errorf(kinds.UnknownPeer, "%s: %q names nobody who has called or is on the network: give the full id, 64 hex digits, or see acpctl peers", op, ref)
	case 1:
		return found[0], nil
	}
	ids := make([]string, len(found))
	for i, s := range found {
		ids[i] = s.ID.String()
	}
	return peer.Pending{}, kinds.Errorf(kinds.UnknownPeer, "%s: %q names several strangers: give the full id, one of %s", op, ref, strings.Join(ids, ", "))
}

// newNoCertificateError returns the error for a name of an authority while no key with a certificate of that name is
// known: what somebody calls itself is none.
func (d *Daemon) newNoCertificateError(op, ref string) error {
	remedy := "give the full id, 64 hex digits"
	if op == "untrust" {
		own, authority, _ := strings.Cut(ref, ".")
		line := "name " + own
		refusal := fmt.Sprintf("write \"revoked: revoked.txt\" under organisation.authorities.%s in config.yaml, and the line %q into %s", authority, line, d.home.filePath("revoked.txt"))
		if file := d.config.Load().Organisation.Authorities[authority].Revoked; file != "" {
			path, _ := config.FindStateFile(string(d.home), file) // it was read
			refusal = fmt.Sprintf("write the line %q into %s", line, path)
		}
		remedy = fmt.Sprintf("to refuse that name, whatever key has it, %s, then acpctl reload; its full id blocks that key", refusal)
	}
	return kinds.Errorf(kinds.UnknownPeer, "%s: no key shows a certificate with the name %q now: %s", op, ref, remedy)
}

// findBlockedPeer finds the blocked key that ref means: by the name that it had, or by the
// beginning of its id.
func (d *Daemon) findBlockedPeer(ref string) (identity.Block, bool) {
	digits := strings.ToLower(ref)
	for _, b := range d.trust.Blocks() {
		if ref != "" && b.Name == ref || len(ref) >= 6 && strings.HasPrefix(b.ID.String(), digits) {
			return b, true
		}
	}
	return identity.Block{}, false
}

// newBlockedError returns the error for a name that means a blocked key.
func newBlockedError(op, ref string, b identity.Block) error {
	return kinds.Errorf(kinds.UnknownPeer, "%s: %q was untrusted and is blocked: only its full id lifts that, acpctl trust %s", op, ref, b.ID)
}

// newPeerToTrust returns a stranger as a peer to trust: under the name that its claim may give
// it, and with the post-quantum key that it showed when it called. One that counts by its certificate has both from that.
func (d *Daemon) newPeerToTrust(s peer.Pending) identity.Peer {
	p := identity.Peer{ID: s.ID, PQ: s.PQ, Name: d.trust.FindNameForClaim(s.Claim)}
	certified := ""
	if known, ok := d.trust.FindPeer(s.ID); ok && known.Certificate != nil { // what the authority said of it goes on
		p.PQ, certified = known.PQ, known.Name
	} else if b, ok := d.trust.FindBlock(s.ID); ok {
		certified = b.Name
	}
	if own, _, ok := strings.Cut(certified, "."); ok {
		p.Name = d.trust.FindNameForClaim(own)
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
