package operate

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

func (v *verbs) newUsageCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "usage [PEER]",
		Short: "Show what peers use of this daemon, and how to free it",
		Example: `  acpctl usage
  acpctl usage laptop
  acpctl status --budget            all rows, also those that nobody uses`,
		Long: `It shows the rows of the budget that peers use, or of which more was refused, in the columns ROW (what is counted), PEER (who,
or all together), HELD (what is used now), BOUND (what may be used) and REFUSED (how often more was refused since the daemon's
start). On a terminal, and with --json, it says what each row counts, and how to free it.`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return v.CompletePeers(cmd, args, begun, client.PeerConnected, client.PeerTrusted)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "" {
				return frame.UsageErrorf("PEER is empty")
			}
			return v.showUsage(cmd.Context(), frame.FirstOrEmpty(args))
		},
	}
}

// showUsage prints the rows of the budget that are in use, by one peer if peer is not "".
func (v *verbs) showUsage(ctx context.Context, peer string) error {
	b, err := v.Daemon.BudgetOf(ctx, peer)
	if err != nil {
		return err
	}
	b.Rows = listUsedRows(b, peer == "")
	return v.PrintData(b, func() {
		v.PrintTable(budgetHead, formatBudget(b, peer == ""))
		if !v.OutTTY || len(b.Rows) == 0 {
			return
		}
		v.PrintLine("")
		for _, r := range b.Rows {
			remedy := ""
			if r.Remedy != "" {
				remedy = "; " + r.Remedy
			}
			v.PrintLine("%s: %s%s", client.Line(r.Name), client.Line(r.What), client.Line(remedy))
		}
	})
}

// listUsedRows returns the rows in which a listed peer holds something or was refused more;
// with all also those of the machine that are short.
func listUsedRows(b *client.Budget, all bool) []client.BudgetRow {
	used := []client.BudgetRow{}
	for _, r := range b.Rows {
		short := all && r.Unit == client.UnitBytesFree && r.Held < r.All
		for _, u := range b.Usage {
			short = short || u.Row == r.Name
		}
		if short {
			used = append(used, r)
		}
	}
	return used
}

var budgetHead = []string{"ROW", "PEER", "HELD", "BOUND", "REFUSED"}

// ShowBudget prints each row of the budget for all peers together. Below it stands each peer
// that holds some of it or was refused more.
func ShowBudget(ctx context.Context, f *frame.Frame) error {
	b, err := f.Daemon.Budget(ctx)
	if err != nil {
		return err
	}
	return f.PrintList(b, budgetHead, formatBudget(b, true))
}

// formatBudget returns the lines of rows and of the peers that use them; with sums, one for all
// peers together too.
func formatBudget(b *client.Budget, sums bool) (lines [][]string) {
	for _, r := range b.Rows {
		var refused uint64
		var peers [][]string
		for _, u := range b.Usage {
			if u.Row != r.Name {
				continue
			}
			refused += u.Refused
			held := formatAmount(r.Unit, u.Held)
			if r.Unit == client.UnitBytesFree {
				held = "-" // nobody's
			}
			peers = append(peers, []string{r.Name, client.Line(u.Name), held, formatBound(r.Unit, r.Peer), strconv.FormatUint(u.Refused, 10)})
		}
		if sums {
			lines = append(lines, []string{r.Name, "(all)", formatAmount(r.Unit, r.Held), formatBound(r.Unit, r.All), strconv.FormatUint(refused, 10)})
		}
		lines = append(lines, peers...)
	}
	return lines
}

// formatBound returns a bound of a row, or "-".
func formatBound(unit string, n int64) string {
	if n == 0 {
		return "-"
	}
	return formatAmount(unit, n)
}

// formatAmount returns n in the unit of its row.
func formatAmount(unit string, n int64) string {
	switch unit {
	case client.UnitBytes:
		return ui.FormatBytes(uint64(n))
	case client.UnitBytesFree:
		return ui.FormatBytes(uint64(n)) + " free"
	}
	return strconv.FormatInt(n, 10)
}
