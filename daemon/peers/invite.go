package peers

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

const maxInvited = 3 // addresses in an invitation

func (s *Service) serveInvite(_ context.Context, _ *local.Conn, p *client.InviteParams) (any, error) {
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
	relays, err := s.Relays.ListInvited(p)
	if err != nil {
		return nil, err
	}
	if len(relays) == 0 && !p.NoRelay && s.Node.StaysOnRelays() {
		return nil, kinds.Errorf(kinds.Invalid, "invite: direct is off, and there is no relay that an invitation can name: fix one that acpctl relay list shows, or use acpctl invite --no-relay, which names the addresses of this machine")
	}
	token, opened, err := s.Node.Invitations().Issue(time.Duration(p.ExpiresSecs)*time.Second, p.Name, max(1, int(p.Uses)))
	if err != nil {
		return nil, explainTrustError("invite", err)
	}
	inv := identity.Invitation{ID: s.Self, Addrs: s.listInvitedAddrs(relays), Relays: relays, Name: s.Name, PQ: s.PQ, Token: token}
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

// listInvitedAddrs returns the addresses that an invitation names. It names none if the daemon hides them
// and can be reached through a relay.
func (s *Service) listInvitedAddrs(relays []identity.InvitedRelay) []string {
	if s.Direct == config.Off && len(relays) > 0 {
		return nil
	}
	return chooseInvitedAddrs(s.Node.LocalAddrs(), findNetworks())
}

// findNetworks returns the number of the interface that has each address of this machine. It leaves out
// interfaces that do not run, like a bridge for containers that are stopped.
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
		at, _ := netip.ParseAddrPort(addr) // a name belongs to no network
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
func (s *Service) serveInvitations(context.Context, *local.Conn, *local.NoParams) (any, error) {
	out := &client.Invitations{Invitations: []client.OpenInvitation{}}
	for _, o := range s.Node.Invitations().List() {
		row := client.OpenInvitation{ID: o.ID, Expires: o.Expires.UTC(), Name: o.Name, Uses: o.Uses, Left: o.Uses - len(o.UsedBy)}
		for _, id := range o.UsedBy {
			row.Joined = append(row.Joined, client.NamedPeer{ID: id, Name: s.Trust.NameOf(id)})
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
func (s *Service) serveRevoke(_ context.Context, _ *local.Conn, p *client.RevokeParams) (any, error) {
	if (p.ID == "") == !p.All {
		return nil, kinds.Errorf(kinds.Invalid, "revoke: expected either id or all: true")
	}
	n := s.Node.Invitations().Revoke(func(o identity.InvitationInfo) bool { return p.All || o.ID == p.ID })
	if n == 0 && !p.All {
		return nil, kinds.Errorf(kinds.NotFound, "revoke: no invitation %.64q is open: acpctl invite --list shows those that are", p.ID)
	}
	return &client.Revoked{Revoked: n}, nil
}

func (s *Service) serveJoin(ctx context.Context, _ *local.Conn, p *client.JoinParams) (any, error) {
	inv, err := identity.ParseInvitation(p.URI)
	if err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "join: %s", err)
	}
	who, err := s.Relays.Join(ctx, inv, p.Relay)
	if err != nil {
		return nil, err
	}
	if kept := s.describeKeptName(identity.Peer{ID: who.ID, Name: who.Name}, inv.Name); kept != "" {
		who.Warning = strings.TrimPrefix(who.Warning+"; "+kept, "; ")
	}
	return who, nil
}
