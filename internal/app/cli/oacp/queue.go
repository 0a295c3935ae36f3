package oacp

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

func (o *verbs) newQueueCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue [PROJECT]",
		Short: "List the mail that is for other machines, and why it waits",
		Example: `  acpctl oacp queue
  acpctl oacp queue demo --json
  acpctl oacp queue drop demo reviewer note.yaml       give one up`,
		Long: `Lists the mail in the inboxes of bound agents. STATE is waiting; delivered, if it is
stored at the peer and the copy here stays; or parked, if it is not carried, for the
reason below it. A parked file is carried once you have corrected it.`,
		ValidArgsFunction: o.completeArgs,
		RunE: o.withDaemonCheck(func(ctx context.Context, args []string) error {
			all, err := o.Daemon.OACPQueue(ctx, frame.FirstOrEmpty(args))
			if err == nil && len(all) == 0 {
				err = o.checkProject(ctx, frame.FirstOrEmpty(args))
			}
			if err != nil {
				return err
			}
			var rows [][]string
			for _, q := range all {
				rows = append(rows, []string{client.Line(q.Project), q.Agent, q.Peer, client.Line(q.File), strconv.FormatInt(q.Size, 10), string(q.State), o.FormatTime(q.Since), client.Line(q.Reason)})
			}
			return o.PrintData(struct {
				Entries []client.OACPQueued `json:"entries"`
			}{all}, func() {
				o.PrintTable([]string{"PROJECT", "AGENT", "PEER", "FILE", "SIZE", "STATE", "SINCE"}, rows) // behind them, on a line of its own, the reason
			})
		}),
	}
	cmd.AddCommand(o.newDropCmd())
	return cmd
}

func (o *verbs) newDropCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "drop PROJECT AGENT FILE",
		Short: "Give up a file: move it into the agent's dead_letter folder",
		Example: `  acpctl oacp queue drop demo reviewer note.yaml
  acpctl oacp queue --json`,
		ValidArgsFunction: o.completeArgs,
		RunE: o.withDaemonCheck(func(ctx context.Context, args []string) error {
			d, err := o.Daemon.OACPDrop(ctx, client.OACPDropParams{Project: args[0], Agent: args[1], File: args[2]})
			if err != nil {
				return err
			}
			return o.PrintData(d, func() { o.PrintLine("%s", client.Line(d.Path)) })
		}),
	}
}
