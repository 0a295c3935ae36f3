package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

// addSpentFlag adds --spent to the verb agents, and returns the verb.
func (a *app) addSpentFlag(cmd *cobra.Command) *cobra.Command {
	var spent bool
	var days int
	list := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case spent && (days < 1 || days > 31):
			return frame.UsageErrorf("--days: %d: expected a number from 1 to 31", days)
		case spent:
			return a.showSpent(cmd.Context(), days)
		case cmd.Flags().Changed("days"):
			return frame.UsageErrorf("--days is for --spent: give that too, or leave it out")
		}
		return list(cmd, args)
	}
	cmd.Flags().BoolVar(&spent, "spent", false, "instead, what headless runs of agent programs have cost, and what they may cost a day")
	cmd.Flags().IntVar(&days, "days", 1, "with --spent: how many days back, today among them")
	return cmd
}

// showSpent prints what headless runs have cost on the last days, and what they may cost today.
func (a *app) showSpent(ctx context.Context, days int) error {
	spent, err := a.Daemon.Spent(ctx, client.SpentParams{Days: days})
	if err != nil {
		return err
	}
	var lines [][]string
	for _, r := range spent.Rows {
		lines = append(lines, []string{r.Day, client.Line(r.Name), r.Profile, strconv.FormatUint(r.Runs, 10), strconv.FormatUint(r.Tokens, 10), fmt.Sprintf("%.2f", r.Cost)})
	}
	l := spent.Limits
	most := strconv.FormatUint
	lines = append(lines, []string{"a day", "(each)", "(all)", most(l.Runs, 10), most(l.Tokens, 10), fmt.Sprintf("%.2f", l.Cost)},
		[]string{"a day", "(all)", "(all)", "-", "-", fmt.Sprintf("%.2f", l.CostAll)})
	return a.PrintList(spent, []string{"DAY", "PEER", "PROFILE", "RUNS", "TOKENS", "USD"}, lines)
}
