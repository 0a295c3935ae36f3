package oacp

import (
	"context"
	"errors"
	"fmt"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/oacp/mailbox"
	"github.com/spf13/cobra"
)

func (o *verbs) newDoneCmd() *cobra.Command {
	var discard bool
	cmd := &cobra.Command{
		Use:   "done PROJECT AGENT ID|FILE",
		Short: "Take a message out of the inbox",
		Example: `  acpctl oacp done demo reviewer 20260101120000_planner_question_0a1b.yaml
  acpctl oacp done demo reviewer msg-20260101120000-planner-1b2c --delete`,
		Long: `Moves a message that was processed from the inbox to inbox/archive/, unchanged, or
deletes it. The copy on its sender's machine is then removed too.`,
		ValidArgsFunction: o.completeArgs,
		RunE: o.withReferenceErrors(func(_ context.Context, args []string) error {
			a, err := o.findAgent(args[0], args[1])
			if err != nil {
				return err
			}
			e, err := mailbox.FindMessageIn(args[2], a.Inbox())
			if _, missing := errors.AsType[*mailbox.NotFoundError](err); missing {
				return fmt.Errorf("%w: acpctl oacp inbox %s --agent %s lists those that are", err, args[0], args[1])
			}
			if err != nil {
				return err
			}
			path, err := a.FinishMessage(e, discard)
			if err != nil {
				return err
			}
			return o.printReport(struct {
				File    string `json:"file"`
				ID      string `json:"id,omitempty"`
				Archive string `json:"archive_path,omitempty"`
				Deleted bool   `json:"deleted"`
			}{e.Name, e.Message.ID, path, discard}, func() {
				o.PrintLine("OK: %s", client.Line(e.Name))
				if !discard {
					o.PrintLine("  archive: %s", path)
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&discard, "delete", false, "delete it instead of keeping it in inbox/archive/")
	return cmd
}
