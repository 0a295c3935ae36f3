package talk

import (
	"cmp"
	"context"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// taskResult holds what delegate --wait prints with --json: the result of a delegation, or its
// error. If the delegation ended without its agent, that is an error too.
type taskResult struct {
	Ref     wire.MessageID `json:"ref"`
	From    identity.ID    `json:"from"`
	Kind    string         `json:"kind"`
	Payload wire.Payload   `json:"payload"`
}

func newTaskResult(t *client.Task, from identity.ID) taskResult {
	r := taskResult{Ref: t.ID, From: from, Kind: kinds.KindError, Payload: t.Result}
	switch {
	case kinds.FindReportKind(t.Result) == kinds.KindResult, t.State == client.TaskAccepted: // the latter if no report is wanted
		r.Kind = kinds.KindResult
	case t.State == client.TaskExpired:
		r.Payload = kinds.EncodePayload(kinds.Errorf(kinds.Timeout, "the deadline passed"))
	case t.State == client.TaskCancelled:
		r.Payload = kinds.EncodePayload(kinds.Errorf(kinds.Cancelled, "%s", t.Outcome))
	}
	return r
}

// readOutcome returns the whole outcome of a task and its data. Both come from the result. Without a
// result, the outcome is what the daemon reports.
func readOutcome(t *client.Task) (words string, data jsontext.Value) {
	if r, err := kinds.ParsePayload[kinds.Result](t.Result); err == nil && kinds.FindReportKind(t.Result) == kinds.KindResult {
		return r.Outcome, r.Data
	}
	if e, err := kinds.ParsePayload[kinds.Error](t.Result); err == nil && e.Message != "" {
		return e.Message, nil
	}
	if t.Outcome == "" && t.State == client.TaskExpired {
		return "the deadline passed", nil
	}
	return t.Outcome, nil
}

// isResultTruncated reports whether a result says that it was truncated, as a response may.
func isResultTruncated(result wire.Payload) bool {
	var r struct {
		Truncated bool `json:"truncated"`
	}
	return json.Unmarshal(result, &r) == nil && r.Truncated
}

// warnTruncated tells that an answer is not whole. It tells scripts too, because they must not
// take the answer for whole.
func (v *verbs) warnTruncated() {
	v.Warn("the answer is not whole, the agent has cut it: ask for less at a time")
}

// exitCodeOfState has the exit codes of the states in which a wait for a task ends. Any other
// state means a failure.
var exitCodeOfState = map[client.TaskState]int{
	client.TaskCompleted: 0,
	client.TaskAccepted:  0, // no report is wanted
	client.TaskHanded:    0,
	client.TaskHeld:      0,
	client.TaskRefused:   frame.ExitRefused,
	client.TaskExpired:   frame.ExitTimeout,
}

// newRefusalError returns the error for an ack that refuses, or nil if the ack accepts.
func newRefusalError(ack *kinds.Ack) *kinds.Error {
	if ack.Accepted {
		return nil
	}
	return kinds.NewErrorFromWire(string(cmp.Or(ack.Code, kinds.NotAuthorized)), ack.Message, 0)
}

// reportRefusal tells a person of a refusal. The error sets the exit code.
func (v *verbs) reportRefusal(ack *kinds.Ack) error {
	if ack.Accepted {
		return nil
	}
	if why := cmp.Or(ack.Message, string(ack.Code), "no reason given"); !v.JSON {
		v.Warn("refused: %s", why)
	}
	return frame.Exit(frame.ExitRefused)
}

// reportOutcome tells a person how a task ended, and removes its result from the inbox when all is
// written. The error sets the exit code.
func (v *verbs) reportOutcome(ctx context.Context, t *client.Task) error {
	code, known := exitCodeOfState[t.State]
	if !known {
		code = frame.ExitFailed
	}
	how := string(t.State)
	if e, err := kinds.ParsePayload[kinds.Error](t.Result); err == nil && e.Code != "" && t.State == client.TaskFailed {
		code = e.Code.Info().Exit
		if e.IsDeclined() {
			how = "declined"
		}
	}
	var unwritten error
	if !v.JSON {
		words, data := readOutcome(t)
		shown := v.printTaskForModel(ctx, t, t.Result)
		switch {
		case shown && code == 0:
		case shown:
			v.Warn("%s", how)
		case t.State == client.TaskAccepted:
			v.PrintForPerson("accepted: no report is wanted")
		case t.State == client.TaskHanded || t.State == client.TaskHeld:
			v.printReceipt(client.ReceiptState(t.State))
		case code == 0:
			v.PrintAnswer(words, data)
		default:
			if words != how && !strings.HasPrefix(words, how+": ") { // the daemon itself says "withdrawn: REASON"
				words = how + ": " + words
			}
			unwritten = v.Warn("%s", words)
		}
		if isResultTruncated(t.Result) {
			v.warnTruncated()
		}
	}
	if cmp.Or(unwritten, v.CheckOutput()) == nil {
		v.ackResult(ctx, t)
	}
	if code != 0 {
		return frame.Exit(code)
	}
	return nil
}

// ackResult removes what ended a delegation from the inbox, as it was shown. It changes no exit code:
// the outcome was printed.
func (v *verbs) ackResult(ctx context.Context, t *client.Task) {
	if t.Direction != client.Given {
		return
	}
	if _, err := v.Daemon.Ack(ctx, client.AckParams{Ref: t.ID}); err != nil && ctx.Err() == nil {
		v.Warn("the result is in the inbox too: %s", kinds.AsError(err).Message)
	}
}
