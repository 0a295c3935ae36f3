package admin

import (
	"context"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
)

// Usage shows what peers cost this daemon.
type Usage struct {
	Budget      *budget.Book
	Space       *Space
	ResolvePeer func(before, ref string) (identity.Peer, error)
	NamePeer    func(identity.ID) string
	ListLinks   func() []string // the names of links on which strangers may be
}

// Methods returns the method that shows it.
func (u *Usage) Methods() map[string]local.Method {
	return map[string]local.Method{client.MethodBudget: local.ForOwner(u.serveBudget)}
}

// serveBudget returns what peers may cost this daemon, and what they cost it now.
func (u *Usage) serveBudget(_ context.Context, _ *local.Conn, p *client.BudgetParams) (any, error) {
	var of identity.Peer
	if p.Peer != "" {
		var err error
		if of, err = u.ResolvePeer("peer", p.Peer); err != nil {
			return nil, err
		}
	}
	b := &client.Budget{Rows: []client.BudgetRow{}, Usage: []client.BudgetUsage{}}
	held := make(map[string]int64)
	for _, one := range u.Budget.ListUsage() {
		held[one.Row.Name] += one.Held
		if p.Peer != "" && one.Peer != of.ID {
			continue
		}
		row := client.BudgetUsage{Row: one.Row.Name, Peer: one.Peer, Held: one.Held, Refused: one.Refused}
		if budget.AreStrangers(one.Peer) {
			row.Peer, row.Name = identity.ID{}, u.describeStrangers(one.Peer)
		} else {
			row.Name = u.NamePeer(one.Peer)
		}
		b.Usage = append(b.Usage, row)
	}
	for _, r := range u.Budget.ListRows() {
		if r.Name == budget.FreeSpace.Name {
			free, bound := u.Space.MeasureFree()
			r.Peer, r.All, held[r.Name] = int64(bound), int64(bound), int64(free)
		}
		b.Rows = append(b.Rows, client.BudgetRow{Name: r.Name, Unit: string(r.Unit), Peer: r.Peer, All: r.All, Held: held[r.Name], What: r.What, Remedy: r.Remedy})
	}
	return b, nil
}

// describeStrangers names the strangers that are counted together under an id that belongs to no daemon.
func (u *Usage) describeStrangers(id identity.ID) string {
	if id == budget.Strangers {
		return "strangers"
	}
	for _, link := range u.ListLinks() {
		if budget.StrangersOn(link) == id {
			return "strangers on " + link
		}
	}
	return "strangers on a relay that was removed"
}
