package daemon

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/peer"
)

func (d *Daemon) servePending(context.Context, *localConn, *noParams) (any, error) {
	out := &client.Pending{Pending: []client.PendingPeer{}}
	for _, w := range d.node.Pending() {
		out.Pending = append(out.Pending, client.PendingPeer{
			ID: w.ID, Claim: w.Claim, Addr: w.Addr, Since: w.At.UTC(), PQ: w.PQ, NameConflict: d.isTaken(w.Claim),
		})
	}
	return out, nil
}

// isTaken reports whether a claim is the name of a trusted peer, or reads like it.
func (d *Daemon) isTaken(claim string) bool {
	name := strings.ToLower(strings.TrimSpace(claim))
	return d.trust.FreeName(name) != name
}

// servePeers lists everybody: the trusted, those who called and wait for trust, the
// strangers on the network, the blocked.
func (d *Daemon) servePeers(_ context.Context, s *localConn, _ *noParams) (any, error) {
	if s.isGuest {
		return d.listForGuest(), nil
	}
	rows := []client.Peer{}
	known := make(map[identity.ID]discovery.Entry)
	for _, e := range d.table.Entries() {
		known[e.ID] = e
	}
	for _, p := range d.trust.Peers() {
		row := client.Peer{ID: p.ID, Name: p.Name, State: client.PeerTrusted}
		row.Addrs, row.Source = listAddrs(known[p.ID])
		row.LastSeen = client.Time{Time: d.lastConnections.get(p.ID).at}
		if heard := known[p.ID].LastSeen; heard.After(row.LastSeen.Time) {
			row.LastSeen = client.Time{Time: heard}
		}
		if now, ok := d.node.Peer(p.ID); ok {
			rtt := uint64(now.RTT.Microseconds())
			row.State, row.RTTUS, row.Claim, row.LastSeen = client.PeerConnected, &rtt, now.Claim, client.Time{Time: time.Now()}
			row.Addrs, _ = listAddrs(known[p.ID], now.Addr) // a connection may have moved
			row.Source = client.SourceWorked
		}
		_, row.Refuses = d.refusers.Load(p.ID)
		rows = append(rows, row)
	}
	for _, w := range d.node.Pending() {
		row := client.Peer{ID: w.ID, State: client.PeerPending, Source: client.SourceCall, LastSeen: client.Time{Time: w.At}, Claim: cmp.Or(w.Claim, known[w.ID].Claim)}
		row.Addrs, _ = listAddrs(known[w.ID], w.Addr)
		rows = append(rows, row)
		delete(known, w.ID)
	}
	for _, e := range d.listDiscovered() {
		if _, ok := known[e.ID]; ok {
			row := client.Peer{ID: e.ID, State: client.PeerDiscovered, LastSeen: client.Time{Time: e.LastSeen}, Claim: e.Claim}
			row.Addrs, row.Source = listAddrs(e)
			rows = append(rows, row)
		}
	}
	for i := range rows {
		rows[i].NameConflict = rows[i].Name == "" && d.isTaken(rows[i].Claim)
	}
	for _, b := range d.trust.Blocks() {
		rows = append(rows, client.Peer{ID: b.ID, Name: b.Name, State: client.PeerBlocked, Addrs: []string{}})
	}
	return &client.Peers{Peers: rows}, nil
}

// listForGuest are the peers as agents see them: the trusted, without addresses.
func (d *Daemon) listForGuest() *client.Peers {
	rows := []client.Peer{}
	for _, p := range d.trust.Peers() {
		row := client.Peer{ID: p.ID, Name: p.Name, State: client.PeerTrusted, Addrs: []string{}, LastSeen: client.Time{Time: d.lastConnections.get(p.ID).at}}
		if now, ok := d.node.Peer(p.ID); ok {
			rtt := uint64(now.RTT.Microseconds())
			row.State, row.RTTUS, row.LastSeen = client.PeerConnected, &rtt, client.Time{Time: time.Now()}
		}
		_, row.Refuses = d.refusers.Load(p.ID)
		rows = append(rows, row)
	}
	return &client.Peers{Peers: rows}
}

// maxListedAddrs bounds the addresses in a row of peers.
const maxListedAddrs = 8

// listAddrs returns where a peer may be reached, first and then the best that the table
// has, and where the first address of the table comes from.
func listAddrs(e discovery.Entry, first ...string) (addrs []string, source client.AddrSource) {
	addrs = append([]string{}, first...)
	for _, a := range e.Addrs {
		source = cmp.Or(source, client.AddrSource(a.Source))
		if len(addrs) < maxListedAddrs && !slices.Contains(addrs, a.HostPort) {
			addrs = append(addrs, a.HostPort)
		}
	}
	return addrs, source
}

// listStrangers returns those who called and then those who are on the network, of whom
// only id and claim are known.
func (d *Daemon) listStrangers() []peer.Pending {
	all := d.node.Pending()
	for _, e := range d.listDiscovered() {
		if !slices.ContainsFunc(all, func(s peer.Pending) bool { return s.ID == e.ID }) {
			all = append(all, peer.Pending{ID: e.ID, Claim: e.Claim})
		}
	}
	return all
}

// listDiscovered returns the strangers on the network, ordered by what they call
// themselves.
func (d *Daemon) listDiscovered() []discovery.Entry {
	entries := slices.DeleteFunc(d.table.Entries(), func(e discovery.Entry) bool {
		_, trusted := d.trust.Get(e.ID)
		return trusted || e.LastSeen.IsZero() || d.trust.Blocked(e.ID)
	})
	slices.SortStableFunc(entries, func(a, b discovery.Entry) int { return cmp.Compare(strings.ToLower(a.Claim), strings.ToLower(b.Claim)) })
	return entries
}
