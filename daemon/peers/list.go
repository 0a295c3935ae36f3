package peers

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/organisation"
	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/peer"
)

func (s *Service) servePending(context.Context, *local.Conn, *local.NoParams) (any, error) {
	out := &client.Pending{Pending: []client.PendingPeer{}}
	for _, w := range s.Node.Pending() {
		out.Pending = append(out.Pending, client.PendingPeer{
			ID: w.ID, Claim: w.Claim, Addr: shortenLinkAddr(w.Addr), Since: w.At.UTC(), PQ: w.PQ, NameConflict: s.Trust.IsNameTaken(w.Claim),
		})
	}
	return out, nil
}

// servePeers lists the trusted and the certified peers, the pending ones, the strangers on the network, and
// the blocked keys.
func (s *Service) servePeers(_ context.Context, c *local.Conn, _ *local.NoParams) (any, error) {
	if c.IsGuest {
		return &client.Peers{Peers: s.listPeerRows()}, nil
	}
	rows := []client.Peer{}
	known := make(map[identity.ID]discovery.Entry)
	for _, e := range s.Addresses.List() {
		known[e.ID] = e
	}
	for _, row := range s.listPeerRows() {
		e := known[row.ID]
		row.Addrs, row.Source = listPeerAddrs(e)
		if e.LastSeen.After(row.LastSeen.Time) {
			row.LastSeen = client.Time{Time: e.LastSeen}
		}
		if now, ok := s.Node.Peer(row.ID); ok {
			row.Claim, row.Software, row.Source = now.Claim, now.Software, client.SourceWorked
			row.Addrs, _ = listPeerAddrs(e, shortenLinkAddr(now.Addr)) // a connection may have moved
		}
		rows = append(rows, row)
	}
	for _, w := range s.Node.Pending() {
		row := client.Peer{ID: w.ID, State: client.PeerPending, Source: client.SourceCall, LastSeen: client.Time{Time: w.At}, Claim: cmp.Or(w.Claim, known[w.ID].Claim)}
		row.Addrs, _ = listPeerAddrs(known[w.ID], shortenLinkAddr(w.Addr))
		rows = append(rows, row)
		delete(known, w.ID)
	}
	for _, e := range s.listDiscoveredDaemons() {
		if _, ok := known[e.ID]; ok {
			row := client.Peer{ID: e.ID, State: client.PeerDiscovered, LastSeen: client.Time{Time: e.LastSeen}, Claim: e.Claim}
			row.Addrs, row.Source = listPeerAddrs(e)
			rows = append(rows, row)
		}
	}
	for i := range rows {
		rows[i].NameConflict = rows[i].Name == "" && s.Trust.IsNameTaken(rows[i].Claim)
	}
	for _, b := range s.Trust.Blocks() {
		rows = append(rows, client.Peer{ID: b.ID, Name: b.Name, State: client.PeerBlocked, Addrs: []string{}})
	}
	return &client.Peers{Peers: rows}, nil
}

// listPeerRows returns the peers that the owner trusts, and then those that have a certificate,
// without addresses, as guests see them.
func (s *Service) listPeerRows() []client.Peer {
	rows := []client.Peer{}
	for _, p := range slices.Concat(s.Trust.Peers(), s.Trust.CertifiedPeers()) {
		_, lastSeen := s.Addresses.FindLast(p.ID)
		row := client.Peer{ID: p.ID, Name: p.Name, State: client.PeerTrusted, Addrs: []string{}, LastSeen: client.Time{Time: lastSeen}}
		if now, ok := s.Node.Peer(p.ID); ok {
			row.State, row.RTTUS, row.LastSeen = client.PeerConnected, new(uint64(now.RTT.Microseconds())), client.Time{Time: time.Now()}
			row.Path = client.Path(now.Path)
		} else if heard := s.Node.HeardAt(p.ID); heard.After(row.LastSeen.Time) { // it is shutting down
			row.LastSeen = client.Time{Time: heard}
		}
		row.Pinned = !p.PQ.IsZero()
		_, row.Refuses = s.refusers.Load(p.ID)
		if p.Certificate != nil {
			row.Certificate = organisation.DescribeCertificate(p.Certificate)
		}
		rows = append(rows, row)
	}
	return rows
}

// listPeerAddrs returns first, and then the best addresses of the table. source is how the first address of
// the table became known.
func listPeerAddrs(e discovery.Entry, first ...string) (addrs []string, source client.AddrSource) {
	addrs = append([]string{}, first...)
	for _, a := range e.Addrs {
		source = cmp.Or(source, client.AddrSource(a.Source))
		if len(addrs) < identity.MaxAddrs && !slices.Contains(addrs, a.HostPort) {
			addrs = append(addrs, a.HostPort)
		}
	}
	return addrs, source
}

// listStrangers returns the strangers that called, and then those on the network. Only id and claim are
// known of the latter.
func (s *Service) listStrangers() []peer.Pending {
	all := s.Node.Pending()
	for _, e := range s.listDiscoveredDaemons() {
		if !slices.ContainsFunc(all, func(w peer.Pending) bool { return w.ID == e.ID }) {
			all = append(all, peer.Pending{ID: e.ID, Claim: e.Claim})
		}
	}
	return all
}

// listDiscoveredDaemons returns the strangers on the network, in the order of their claims.
func (s *Service) listDiscoveredDaemons() []discovery.Entry {
	entries := slices.DeleteFunc(s.Addresses.List(), func(e discovery.Entry) bool {
		_, trusted := s.Trust.FindPeer(e.ID)
		return trusted || e.LastSeen.IsZero() || s.Trust.IsBlocked(e.ID)
	})
	sort.SliceStable(entries, func(i, j int) bool { return strings.ToLower(entries[i].Claim) < strings.ToLower(entries[j].Claim) })
	return entries
}
