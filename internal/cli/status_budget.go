package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/acpd/acpd/client"
)

// showBudget prints each row of the budget for all peers together. Below it stands each peer
// that holds some of it or was refused more.
func (a *app) showBudget(ctx context.Context) error {
	b, err := a.Daemon.Budget(ctx)
	if err != nil {
		return err
	}
	var lines [][]string
	for _, r := range b.Rows {
		var refused uint64
		var peers [][]string
		for _, u := range b.Usage {
			if u.Row != r.Name {
				continue
			}
			refused += u.Refused
			held := formatAmount(r.Unit, u.Held)
			if r.Unit == unitFree {
				held = "-" // nobody's
			}
			peers = append(peers, []string{r.Name, client.Line(u.Name), held, formatBound(r.Unit, r.Peer), strconv.FormatUint(u.Refused, 10)})
		}
		lines = append(append(lines, []string{r.Name, "(all)", formatAmount(r.Unit, r.Held), formatBound(r.Unit, r.All), strconv.FormatUint(refused, 10)}), peers...)
	}
	return a.PrintList(b, []string{"ROW", "PEER", "HELD", "BOUND", "REFUSED"}, lines)
}

// The units of rows that are no counts.
const (
	unitBytes = "bytes"
	unitFree  = "bytes_free" // of the disk: what is free is held against what must be left
)

// formatBound returns a bound of a row, "-" if it has none.
func formatBound(unit string, n int64) string {
	if n == 0 {
		return "-"
	}
	return formatAmount(unit, n)
}

// formatAmount returns n in the unit of its row.
func formatAmount(unit string, n int64) string {
	switch unit {
	case unitBytes:
		return formatBytes(n)
	case unitFree:
		return formatBytes(n) + " free"
	}
	return strconv.FormatInt(n, 10)
}

// formatBytes returns n bytes in a fitting unit, without decimals if that is exact.
func formatBytes(n int64) string {
	for i, name := range []string{"GiB", "MiB", "KiB"} {
		switch unit := int64(1) << (30 - 10*i); {
		case n >= unit && n%unit == 0:
			return fmt.Sprintf("%d %s", n/unit, name)
		case n >= unit:
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit), name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
