package talk

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// reply holds the arguments of acpctl reply.
type reply struct {
	id, progress, message, data string // flags
	isPartial, failed, declined bool
}

func (v *verbs) newReplyCmd() *cobra.Command {
	var r reply
	cmd := &cobra.Command{
		Use:   "reply ID [TEXT]",
		Short: "Answer a question about a delegation, or report on one",
		Example: `  acpctl reply 3f2b8c1e 'the branch main'               answers a question
  acpctl reply "$ACP_ID" --partial --progress 0.4 --message 'running the tests'
  acpctl reply "$ACP_ID" 'all 40 tests pass'                            ends a delegation taken
  acpctl reply "$ACP_ID" --failed 'two tests fail' --data @failed.json
  acpctl reply "$ACP_ID" --declined 'deploying is not mine to do'`,
		Long: `ID is a delegation, or a question about one; tasks and wait show both. Its first six or more characters are enough.

For a delegation that you gave, TEXT answers what its agent asks. It is kept, and reaches the agent when it asks again. For a
delegation that you took, TEXT is the result, or with --partial one of several partial results before it. At most four partial
results are sent in a second; if there are more, only the newest. They print nothing without --json, because under acpctl serve the
printed text becomes the result.

TEXT and --data may be - (standard input) or @file.`,
		ValidArgsFunction: v.completeTasks,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			id, err := v.findTaskID(ctx, "ID", args[0], repliedTask)
			if err != nil {
				return err
			}
			var text string
			if len(args) > 1 {
				if text, err = v.ReadArgument(ctx, "TEXT", args[1]); err != nil {
					return err
				}
			} else if !r.isPartial {
				return frame.UsageErrorf("TEXT is missing")
			}
			var data jsontext.Value
			if r.data != "" {
				if data, err = v.readReplyData(ctx, r.data); err != nil {
					return err
				}
			}
			if r.isResult() {
				return v.sendReplyAsResult(ctx, id, &r, text, data)
			}
			return v.replyToTask(ctx, id, &r, text, data)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&r.isPartial, "partial", false, "a partial result: more follows")
	f.StringVar(&r.progress, "progress", "", "with --partial: how much is done, 0 to 1")
	f.StringVar(&r.message, "message", "", "with --partial: what is being done")
	f.BoolVar(&r.failed, "failed", false, "the task has failed")
	f.BoolVar(&r.declined, "declined", false, "the task is not done, for the reason that TEXT gives: whoever delegated sees it as declined")
	f.StringVar(&r.data, "data", "", "data in addition to TEXT, any JSON, @file or -")
	f.StringVar(&r.id, "id", "", "id of the result, to repeat it safely (default: a new one)")
	return cmd
}

// isResult reports whether the flags are those of a result.
func (r *reply) isResult() bool {
	return r.isPartial || r.failed || r.declined || r.progress != "" || r.message != "" || r.id != ""
}

func (v *verbs) readReplyData(ctx context.Context, arg string) (jsontext.Value, error) {
	text, err := v.ReadArgument(ctx, "--data", arg)
	if err != nil {
		return nil, err
	}
	return frame.ParseJSON("--data", text)
}

// replyToTask answers the question that is open about a delegation given from here, or ends one that
// was taken.
func (v *verbs) replyToTask(ctx context.Context, id wire.MessageID, r *reply, text string, data jsontext.Value) error {
	task, err := v.Daemon.Task(ctx, id)
	isNoTask := errors.Is(err, &kinds.Error{Code: kinds.NotFound})
	switch {
	case err != nil && !isNoTask:
		return err
	case err == nil && task.Direction == client.Taken:
		return v.sendReplyAsResult(ctx, id, r, text, data)
	}
	answered, err := v.Daemon.Answer(ctx, client.AnswerParams{Ref: id, Payload: kinds.EncodePayload(&kinds.Response{Summary: text, Data: data})})
	if e, ok := errors.AsType[*kinds.Error](err); ok && e.Code == kinds.NotFound {
		e.Message = strings.TrimPrefix(e.Message, "ref: ") // the name of a param, and of no argument
	}
	if err != nil {
		return err
	}
	v.SetDoneNote("the question %s is answered", answered.ID)
	return v.PrintData(answered, func() {
		v.PrintLine("answered")
		v.PrintForPerson("The agent that asked has the answer, or gets it when it asks again. Next: acpctl wait %s", answered.Delegation)
	})
}

// sendReplyAsResult reports on a delegation that was taken.
func (v *verbs) sendReplyAsResult(ctx context.Context, ref wire.MessageID, r *reply, text string, data jsontext.Value) error {
	result := kinds.Result{Status: "completed", Outcome: text, Data: data, Message: r.message}
	switch {
	case r.declined && (r.isPartial || r.failed || r.data != ""):
		return frame.UsageErrorf("--declined: TEXT says why nothing is done: leave out --partial, --failed and --data")
	case r.isPartial && r.failed:
		return frame.UsageErrorf("--partial says that more follows, --failed that nothing does: give one of them")
	case r.isPartial:
		result.Status = "partial"
	case r.progress != "" || r.message != "":
		return frame.UsageErrorf("--progress and --message are those of a partial result: add --partial")
	case r.failed:
		result.Status = "failed"
	}
	if r.progress != "" {
		done, err := strconv.ParseFloat(strings.TrimSpace(r.progress), 64)
		if err != nil || !(done >= 0 && done <= 1) {
			return frame.UsageErrorf("--progress: %q: expected a number from 0 to 1", r.progress)
		}
		result.Progress = &done
	}
	params := client.ResultParams{Head: client.Head{ID: wire.NewMessageID()}, Ref: ref, Payload: kinds.EncodePayload(&result)}
	if r.id != "" {
		var err error
		if params.ID, err = frame.ParseMessageID("--id", r.id); err != nil {
			return err
		}
	}
	kind, send := kinds.KindResult, v.Daemon.SendResult
	if r.declined {
		kind, send, params.Payload = kinds.KindError, v.Daemon.SendError, kinds.EncodePayload(kinds.NewDeclined(text))
	}
	if err := kinds.CheckPayload(kind, params.Payload); err != nil {
		return frame.UsageErrorf("%s", kinds.AsError(err).Message)
	}
	receipt, err := send(ctx, params)
	if err != nil {
		return frame.WithRepeatID(err, params.ID)
	}
	v.SetDoneNote("the result is %s, and its id is %s", client.Line(string(receipt.State)), receipt.ID)
	return v.PrintData(receipt, func() {
		if !r.isPartial { // of a partial one nothing, as standard output is the result under acpctl serve
			v.printReceipt(receipt.State)
			return
		}
		if receipt.State == client.Replaced {
			v.PrintForPerson("%s", receiptMeanings[client.Replaced])
		}
		v.PrintForPerson("The delegation is open still. Next: acpctl reply %s TEXT ends it.", ref)
	})
}
