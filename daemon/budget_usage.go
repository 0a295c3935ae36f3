package daemon

import (
	"context"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
)

// serveBudget returns what peers may cost this daemon, and what they cost it now.
func (d *Daemon) serveBudget(_ context.Context, _ *local.Conn, p *client.BudgetParams) (any, error) {
	var of identity.Peer
	if p.Peer != "" {
		var err error
		if of, err = d.resolvePeer("peer", p.Peer); err != nil {
			return nil, err
		}
	}
	b := &client.Budget{Rows: []client.BudgetRow{}, Usage: []client.BudgetUsage{}}
	held := make(map[string]int64)
	for _, u := range d.budget.ListUsage() {
		held[u.Row.Name] += u.Held
		if p.Peer != "" && u.Peer != of.ID {
			continue
		}
		row := client.BudgetUsage{Row: u.Row.Name, Peer: u.Peer, Held: u.Held, Refused: u.Refused}
		if budget.AreStrangers(u.Peer) {
			row.Peer, row.Name = identity.ID{}, d.describeStrangers(u.Peer)
		} else {
			row.Name = d.peerName(u.Peer)
		}
		b.Usage = append(b.Usage, row)
	}
	for _, r := range d.budget.ListRows() {
		if r.Name == budget.FreeSpace.Name {
			_, free, bound := d.space.state.Measure()
			r.Peer, r.All, held[r.Name] = int64(bound), int64(bound), int64(free)
		}
		b.Rows = append(b.Rows, client.BudgetRow{Name: r.Name, Unit: string(r.Unit), Peer: r.Peer, All: r.All, Held: held[r.Name], What: r.What, Remedy: r.Remedy})
	}
	return b, nil
}

// describeStrangers says which strangers are counted under an id that is nobody's.
func (d *Daemon) describeStrangers(id identity.ID) string {
	if id == budget.Strangers {
		return "strangers"
	}
	links := []string{d.pipes.Name()}
	for _, u := range d.relays.list() {
		if u.link != nil {
			links = append(links, u.link.Name())
		}
	}
	for _, link := range links {
		if budget.StrangersOn(link) == id {
			return "strangers on " + link
		}
	}
	return "strangers on a relay that was removed"
}
