package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func (a *app) newWaitCmd() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait for the outcome of a delegation",
		Example: `  acpctl wait 3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b
  acpctl wait --follow 3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b     partial results too
  acpctl wait "$(acpctl delegate desk 'Run the test suite')"`,
		Long: `Waits until a delegation, given or taken, has ended. Exits 0 if it was completed,
7 if it failed or was cancelled, 3 if its deadline passed, 4 if it was refused.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseMessageID("ID", args[0])
			if err = cmp.Or(err, a.checkForModel()); err != nil {
				return err
			}
			return a.waitForTask(cmd.Context(), id, follow)
		},
	}
	a.addForModelFlag(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print partial results as they come")
	return cmd
}

// waitForTask waits until a delegation has ended and tells how; with follow it prints partial
// results too.
func (a *app) waitForTask(ctx context.Context, id wire.MessageID, follow bool) error {
	params := client.WaitParams{ID: id}
	var seen uint64
	if follow {
		params.AfterPartials = &seen
	}
	for {
		task, err := a.Daemon.Wait(ctx, params)
		if err != nil {
			return err
		}
		partial := follow && task.Partials > seen && !task.State.IsFinal()
		seen = task.Partials
		err = a.PrintData(task, func() {
			if r, err := kinds.ParsePayload[kinds.Result](task.Partial); partial && err == nil {
				if !a.printTaskForModel(ctx, task, task.Partial) {
					a.PrintAnswer(r.Outcome, r.Data)
				}
				if isResultTruncated(task.Partial) {
					a.warnTruncated("wait")
				}
			}
		})
		if err = cmp.Or(err, a.CheckOutput()); err != nil {
			return err
		}
		if !partial {
			return a.reportOutcome(ctx, "wait", task)
		}
	}
}
