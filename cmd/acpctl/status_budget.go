package main

import (
	"context"
	"strconv"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
)

// budget shows each row of the budget for all peers together, and below it for each
// peer that holds something of it or was refused more.
func (a *app) budget(ctx context.Context) error {
	b, err := a.daemon.Budget(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.print(b)
	}
	var lines [][]string
	for _, r := range b.Rows {
		row := budget.Row{Unit: budget.Unit(r.Unit)}
		var refused uint64
		var peers [][]string
		for _, u := range b.Usage {
			if u.Row != r.Name {
				continue
			}
			refused += u.Refused
			peers = append(peers, []string{r.Name, client.Line(u.Name), row.Format(u.Held), row.Format(r.Peer), strconv.FormatUint(u.Refused, 10)})
		}
		all := "-"
		if r.All > 0 {
			all = row.Format(r.All)
		}
		lines = append(append(lines, []string{r.Name, "(all)", row.Format(r.Held), all, strconv.FormatUint(refused, 10)}), peers...)
	}
	a.table([]string{"ROW", "PEER", "HELD", "BOUND", "REFUSED"}, lines)
	return nil
}
