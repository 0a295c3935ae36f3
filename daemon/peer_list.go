package daemon

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/peer"
)

func (d *Daemon) servePending(context.Context, *local.Conn, *local.NoParams) (any, error) {
	out := &client.Pending{Pending: []client.PendingPeer{}}
	for _, w := range d.node.Pending() {
		out.Pending = append(out.Pending, client.PendingPeer{
			ID: w.ID, Claim: w.Claim, Addr: shortenLinkAddr(w.Addr), Since: w.At.UTC(), PQ: w.PQ, NameConflict: d.isNameTaken(w.Claim),
		})
	}
	return out, nil
}

// isNameTaken reports whether a claim is the name of a trusted peer, or reads like it.
func (d *Daemon) isNameTaken(claim string) bool {
	name := strings.ToLower(strings.TrimSpace(claim))
	return d.trust.FindFreeName(name) != name
}

// servePeers lists the trusted and the certified peers, the pending ones, the strangers on the network, and
// the blocked keys.
func (d *Daemon) servePeers(_ context.Context, s *local.Conn, _ *local.NoParams) (any, error) {
	if s.IsGuest {
		return &client.Peers{Peers: d.listPeerRows()}, nil
	}
	rows := []client.Peer{}
	known := make(map[identity.ID]discovery.Entry)
	for _, e := range d.table.Entries() {
		known[e.ID] = e
	}
	for _, row := range d.listPeerRows() {
		e := known[row.ID]
		row.Addrs, row.Source = listPeerAddrs(e)
		if e.LastSeen.After(row.LastSeen.Time) {
			row.LastSeen = client.Time{Time: e.LastSeen}
		}
		if now, ok := d.node.Peer(row.ID); ok {
			row.Claim, row.Software, row.Source = now.Claim, now.Software, client.SourceWorked
			row.Addrs, _ = listPeerAddrs(e, shortenLinkAddr(now.Addr)) // a connection may have moved
		}
		rows = append(rows, row)
	}
	for _, w := range d.node.Pending() {
		row := client.Peer{ID: w.ID, State: client.PeerPending, Source: client.SourceCall, LastSeen: client.Time{Time: w.At}, Claim: cmp.Or(w.Claim, known[w.ID].Claim)}
		row.Addrs, _ = listPeerAddrs(known[w.ID], shortenLinkAddr(w.Addr))
		rows = append(rows, row)
		delete(known, w.ID)
	}
	for _, e := range d.listDiscoveredDaemons() {
		if _, ok := known[e.ID]; ok {
			row := client.Peer{ID: e.ID, State: client.PeerDiscovered, LastSeen: client.Time{Time: e.LastSeen}, Claim: e.Claim}
			row.Addrs, row.Source = listPeerAddrs(e)
			rows = append(rows, row)
		}
	}
	for i := range rows {
		rows[i].NameConflict = rows[i].Name == "" && d.isNameTaken(rows[i].Claim)
	}
	for _, b := range d.trust.Blocks() {
		rows = append(rows, client.Peer{ID: b.ID, Name: b.Name, State: client.PeerBlocked, Addrs: []string{}})
	}
	return &client.Peers{Peers: rows}, nil
}

// listPeerRows returns the peers that the owner trusts, and then those that have a certificate,
// without addresses, as guests see them.
func (d *Daemon) listPeerRows() []client.Peer {
	rows := []client.Peer{}
	for _, p := range slices.Concat(d.trust.Peers(), d.trust.CertifiedPeers()) {
		row := client.Peer{ID: p.ID, Name: p.Name, State: client.PeerTrusted, Addrs: []string{}, LastSeen: client.Time{Time: d.lastConnections.get(p.ID).at}}
		if now, ok := d.node.Peer(p.ID); ok {
			row.State, row.RTTUS, row.LastSeen = client.PeerConnected, new(uint64(now.RTT.Microseconds())), client.Time{Time: time.Now()}
			row.Path = client.Path(now.Path)
		} else if heard := d.node.HeardAt(p.ID); heard.After(row.LastSeen.Time) { // it is shutting down
			row.LastSeen = client.Time{Time: heard}
		}
		row.Pinned = !p.PQ.IsZero()
		_, row.Refuses = d.refusers.Load(p.ID)
		if p.Certificate != nil {
			row.Certificate = describeCertificate(p.Certificate)
		}
		rows = append(rows, row)
	}
	return rows
}

// maxListedAddrs bounds the addresses in a row of peers.
const maxListedAddrs = 8

// listPeerAddrs returns the addresses of a peer, first and then the best of the table. source
// says how the first address of the table became known.
func listPeerAddrs(e discovery.Entry, first ...string) (addrs []string, source client.AddrSource) {
	addrs = append([]string{}, first...)
	for _, a := range e.Addrs {
		source = cmp.Or(source, client.AddrSource(a.Source))
		if len(addrs) < maxListedAddrs && !slices.Contains(addrs, a.HostPort) {
			addrs = append(addrs, a.HostPort)
		}
	}
	return addrs, source
}

// listStrangers returns the strangers that called, and then those on the network, of which
// only id and claim are known.
func (d *Daemon) listStrangers() []peer.Pending {
	all := d.node.Pending()
	for _, e := range d.listDiscoveredDaemons() {
		if !slices.ContainsFunc(all, func(s peer.Pending) bool { return s.ID == e.ID }) {
			all = append(all, peer.Pending{ID: e.ID, Claim: e.Claim})
		}
	}
	return all
}

// listDiscoveredDaemons returns the strangers on the network, in the order of their claims.
func (d *Daemon) listDiscoveredDaemons() []discovery.Entry {
	entries := slices.DeleteFunc(d.table.Entries(), func(e discovery.Entry) bool {
		_, trusted := d.trust.FindPeer(e.ID)
		return trusted || e.LastSeen.IsZero() || d.trust.IsBlocked(e.ID)
	})
	sort.SliceStable(entries, func(i, j int) bool { return strings.ToLower(entries[i].Claim) < strings.ToLower(entries[j].Claim) })
	return entries
}
