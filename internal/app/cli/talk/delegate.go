package talk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// delegateFlags holds the flags of acpctl delegate.
type delegateFlags struct {
	messageFlags
	delegate              kinds.Delegate
	deadline              time.Duration
	context               string
	urgent, silent        bool
	isAwaited, isFollowed bool
}

func (v *verbs) newDelegateCmd() *cobra.Command {
	d := delegateFlags{messageFlags: messageFlags{kind: kinds.KindDelegate}}
	cmd := &cobra.Command{
		Use:   "delegate PEER[/AGENT] TASK",
		Short: "Give an agent a task, and get the result later",
		Example: `  acpctl delegate desk 'Run the test suite'            prints the id: see wait, cancel, tasks
  acpctl delegate desk --wait --deadline 1h 'Run the test suite'
  acpctl delegate desk --follow 'Run the test suite'   partial results, and then the outcome
  acpctl delegate desk/reviewer --context '{"branch": "main"}' 'Review it'
  acpctl delegate desk --no-report --urgent 'Restart the build'`,
		Long: `It gives the task to an agent at PEER. Once the agent has accepted it, acpctl prints the delegation's id. With --wait it also
prints the outcome when the task ends, and with --follow partial results too, on standard error. If you interrupt that, the
task continues. Questions of the agent are shown as acpctl wait shows them. TASK and --context
may be - (standard input) or @file. With --wait-online acpctl waits for a peer that cannot be reached, and sends the task once.
With --keep the daemon keeps a task that does not arrive, and hands it over later; then the exit code is 8, also with --wait.`,
		Args: d.checkArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return v.runDelegate(cmd, args, &d) },
	}
	f := cmd.Flags()
	f.StringVar(&d.context, "context", "", "what the agent needs to know, a JSON object, @file or -")
	f.StringVar(&d.delegate.Domain, "domain", "", "what it is about, like code.review: chooses the agent")
	f.BoolVar(&d.urgent, "urgent", false, "interrupt other work for it if need be")
	f.DurationVar(&d.deadline, "deadline", 0, "when the task is over, done or not, at most 720h (default: none)")
	f.BoolVar(&d.silent, "no-report", false, "no report is wanted")
	f.BoolVar(&d.isAwaited, "wait", false, "wait for the outcome")
	f.BoolVarP(&d.isFollowed, "follow", "f", false, "wait for the outcome, and tell partial results as they come")
	v.addForModelFlag(cmd)
	d.addFlags(cmd)
	return cmd
}

// runDelegate hands over the task that the arguments and flags are.
func (v *verbs) runDelegate(cmd *cobra.Command, args []string, d *delegateFlags) error {
	wait := d.isAwaited || d.isFollowed
	if err := v.checkForModel(); err != nil {
		return err
	}
	if v.ForModel && !wait {
		return frame.UsageErrorf("--for-model prints the outcome for a model, and only --wait waits for it")
	}
	if wait && d.silent {
		return frame.UsageErrorf("--wait waits for the report that --no-report does without")
	}
	ctx := cmd.Context()
	h, p, err := d.composeMessage(ctx, v.Frame, func() (_ any, err error) {
		if d.delegate.Task, err = v.ReadArgument(ctx, "TASK", args[1]); err != nil {
			return nil, err
		}
		if d.context != "" {
			if d.delegate.Context, err = v.ReadObject(ctx, "--context", d.context); err != nil {
				return nil, err
			}
		}
		if d.urgent {
			d.delegate.Priority = "urgent"
		}
		if d.silent {
			d.delegate.ReportBack = new(bool)
		}
		d.delegate.DeadlineMS, err = frame.ReadMilliseconds(cmd, "deadline", d.deadline, kinds.MaxTaskDeadline)
		return &d.delegate, err
	})
	if err != nil {
		return err
	}
	return v.delegateTask(ctx, client.DelegateParams{Head: h, To: args[0], Payload: p, KeepMS: d.keep.milliseconds()}, d.patience, wait, d.isFollowed)
}

// delegateTask hands over a task, and tells how that went: whether it was accepted, and with wait how it
// ended. It waits for an unreachable peer as long as patience says.
func (v *verbs) delegateTask(ctx context.Context, params client.DelegateParams, patience time.Duration, wait, follow bool) error {
	var given *client.DelegateAnswer
	err := v.sendOnline(ctx, params.To, patience, func() (err error) {
		given, err = v.Daemon.Delegate(ctx, params)
		return err
	})
	goOn := fmt.Sprintf("see acpctl wait %[1]s, or acpctl cancel %[1]s", params.ID)
	_, isUnsent := errors.AsType[unsentError](err)
	switch {
	case isUnsent:
		return err
	case ctx.Err() != nil:
		return frame.WithHint(ctx.Err(), "the task may have been accepted: "+goOn)
	case err != nil:
		return v.reportKept(params.To, false, frame.WithRepeatID(err, params.ID))
	}
	ack, err := kinds.ParsePayload[kinds.Ack](given.Payload)
	if err != nil {
		return err
	}
	if ack.Accepted {
		v.SetDoneNote("the task was accepted: %s", goOn)
	}
	switch {
	case v.JSON:
		if err := v.PrintJSON(struct {
			*client.DelegateAnswer
			Error *kinds.Error `json:"error,omitzero"`
		}{given, newRefusalError(ack)}); err != nil {
			return err
		}
	case ack.Accepted && wait: // told now, in case the person stops waiting; the data is the outcome
		fmt.Fprintln(v.Err, "accepted:", given.ID)
	case ack.Accepted:
		v.PrintLine("%s", given.ID)
	}
	if !ack.Accepted && v.ForModel {
		v.printForModel(ctx, client.PeerMessage{ID: given.From, Kind: kinds.KindAck, Ref: given.ID, Payload: given.Payload})
		v.Warn("refused")
		return frame.Exit(frame.ExitRefused)
	}
	if !ack.Accepted || !wait {
		return v.reportRefusal(ack)
	}
	task, err := v.awaitEnd(ctx, given.ID, follow, 0)
	if err != nil {
		return frame.WithHint(err, "the task was accepted: "+goOn)
	}
	v.SetDoneNote("the task has ended: acpctl wait %s shows how", given.ID)
	if v.JSON {
		if err := v.PrintJSON(newTaskResult(task, given.From)); err != nil {
			return err
		}
	}
	return v.reportOutcome(ctx, task)
}
