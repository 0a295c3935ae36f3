package talk

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func (v *verbs) newCancelCmd() *cobra.Command {
	var abandon bool
	cmd := &cobra.Command{
		Use:   "cancel ID [REASON]",
		Short: "Cancel a delegation, or withdraw a message that is kept",
		Example: `  acpctl cancel 3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b
  acpctl cancel 3f2b8c1e 'plans have changed'`,
		Long: `ID is that of a delegation that you gave (see tasks); its first six or more characters are enough. The exit code is 4 if the
other side does not agree, for example because the task has ended.

If the other side does not answer, the delegation continues. With --abandon it then ends here, after at most 5 s, but the agent
there may work on until its machine has received the cancellation.

ID may also be that of a message that is kept (--keep). It is then withdrawn, and is not sent any more.`,
		ValidArgsFunction: v.completeTasks,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := v.findTaskID(cmd.Context(), "ID", args[0], givenTask)
			if err != nil {
				return hintAtReply(err)
			}
			c := kinds.Cancel{Reason: frame.FirstOrEmpty(args[1:])}
			answer, err := v.Daemon.Cancel(cmd.Context(), client.CancelParams{Ref: id, Payload: kinds.EncodePayload(&c), Abandon: abandon})
			if e, ok := errors.AsType[*kinds.Error](err); ok && e.Code == kinds.NotFound && e.From == "" {
				return hintAtReply(kinds.Errorf(kinds.NotFound, "ID: %s names no delegation that was given here: see acpctl tasks", id))
			}
			if err != nil {
				return hintAtAbandoning(err, id, abandon)
			}
			if answer.Abandoned != "" {
				return v.printAbandoned(answer)
			}
			ack, err := kinds.ParsePayload[kinds.Ack](answer.Payload)
			if err != nil {
				return err
			}
			err = v.PrintData(struct {
				*client.CancelAnswer
				Error *kinds.Error `json:"error,omitzero"`
			}{answer, newRefusalError(ack)}, func() {
				if ack.Accepted {
					v.PrintLine("%s", v.findCancelled(cmd.Context(), id))
				}
			})
			return errors.Join(err, v.reportRefusal(ack))
		},
	}
	cmd.Flags().BoolVar(&abandon, "abandon", false, "if the other side does not answer, end it only here")
	return cmd
}

// findCancelled returns what has become of what was cancelled: withdrawn if it was kept.
func (v *verbs) findCancelled(ctx context.Context, id wire.MessageID) string {
	if t, err := v.Daemon.Task(ctx, id); err == nil && t.State == client.TaskWithdrawn {
		return string(t.State)
	}
	return string(client.TaskCancelled)
}

// hintAtReply returns the error of a cancel, with how work that was taken here is ended if it is not one that was given.
func hintAtReply(err error) error {
	if e, ok := errors.AsType[*kinds.Error](err); !ok || e.Code != kinds.NotFound {
		return err
	}
	return frame.WithHint(err, "only who delegated can cancel: acpctl reply ID --failed TEXT ends what was taken here")
}

// hintAtAbandoning returns the error of a cancel, with what helps if the other side has said nothing.
func hintAtAbandoning(err error, id wire.MessageID, abandoned bool) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || abandoned || e.From != "" || e.Code != kinds.Unreachable && e.Code != kinds.Timeout {
		return err
	}
	return frame.WithHint(err, fmt.Sprintf("the delegation stays open: acpctl cancel %s --abandon ends it only here", id))
}

// printAbandoned prints that a delegation has ended only here. It prints the reason for scripts too, because nobody
// knows what becomes of the work.
func (v *verbs) printAbandoned(answer *client.CancelAnswer) error {
	if !v.JSON {
		v.Warn("the other side has not answered: %s: it may work on; the cancellation is sent until it answers", answer.Abandoned)
	}
	return v.PrintData(answer, func() { v.PrintLine("abandoned") })
}
