package cli

import (
	"cmp"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// taskResult is what delegate --wait prints with --json: the result of a delegation, or its
// error. It also has an error if the delegation ended without its agent.
type taskResult struct {
	Ref     wire.MessageID `json:"ref"`
	From    identity.ID    `json:"from"`
	Kind    string         `json:"kind"`
	Payload wire.Payload   `json:"payload"`
}

func newTaskResult(t *client.Task, from identity.ID) taskResult {
	r := taskResult{Ref: t.ID, From: from, Kind: kinds.KindError, Payload: t.Result}
	row, _ := kinds.Lookup(kinds.KindResult)
	switch {
	case row.CheckPayload(t.Result) == nil:
		r.Kind = kinds.KindResult
	case t.State == client.TaskExpired:
		r.Payload = kinds.Encode(kinds.Errorf(kinds.Timeout, "the deadline passed"))
	case t.State == client.TaskCancelled:
		r.Payload = kinds.Encode(kinds.Errorf(kinds.Cancelled, "%s", t.Outcome))
	case t.State == client.TaskAccepted: // no report is wanted
		r.Kind = kinds.KindResult
	}
	return r
}

// outcomeOf returns the whole outcome of a task and its data. They come from the result;
// without one, the outcome is what the daemon says.
func outcomeOf(t *client.Task) (words string, data jsontext.Value) {
	row, _ := kinds.Lookup(kinds.KindResult)
	if row.CheckPayload(t.Result) == nil {
		if r, err := kinds.Parse[kinds.Result](t.Result); err == nil {
			return r.Outcome, r.Data
		}
	}
	if e, err := kinds.Parse[kinds.Error](t.Result); err == nil && e.Message != "" {
		return e.Message, nil
	}
	if t.Outcome == "" && t.State == client.TaskExpired {
		return "the deadline passed", nil
	}
	return t.Outcome, nil
}

// isTruncated reports whether a result says that it was truncated, as a response may.
func isTruncated(result wire.Payload) bool {
	var r resultPayload
	return json.Unmarshal(result, &r) == nil && r.Truncated
}

// tellTruncated tells that an answer is not whole. It tells scripts too: they must not take it
// for that.
func (a *app) tellTruncated(verb string) {
	fmt.Fprintf(a.Err, "acpctl %s: the answer is not whole, the agent has cut it: ask for less at a time\n", verb)
}

// exitCodeOfState has the exit codes of the states in which a wait for a task ends.
var exitCodeOfState = map[client.TaskState]int{
	client.TaskCompleted: 0,
	client.TaskAccepted:  0, // no report is wanted
	client.TaskRefused:   frame.ExitRefused,
	client.TaskExpired:   frame.ExitTimeout,
	client.TaskFailed:    frame.ExitFailed,
	client.TaskCancelled: frame.ExitFailed,
}

// refusalError returns the error that an ack stands for, nil if the ack accepts.
func refusalError(ack *kinds.Ack) *kinds.Error {
	if ack.Accepted {
		return nil
	}
	code := ack.Code
	if code == "" {
		code = kinds.NotAuthorized
	}
	return kinds.FromWire(string(code), ack.Message, 0)
}

// tellRefusal tells a person of a refusal. The error sets the exit code.
func (a *app) tellRefusal(verb string, ack *kinds.Ack) error {
	if ack.Accepted {
		return nil
	}
	if why := cmp.Or(ack.Message, string(ack.Code), "no reason given"); !a.JSON {
		fmt.Fprintf(a.Err, "acpctl %s: refused: %s\n", verb, client.Line(why))
	}
	return frame.Exit(frame.ExitRefused)
}

// tellOutcome tells a person how a task ended. The error sets the exit code.
func (a *app) tellOutcome(verb string, t *client.Task) error {
	code, known := exitCodeOfState[t.State]
	if !known {
		code = frame.ExitFailed
	}
	if e, err := kinds.Parse[kinds.Error](t.Result); err == nil && e.Code != "" && t.State == client.TaskFailed {
		code = e.Code.Info().Exit
	}
	if !a.JSON {
		words, data := outcomeOf(t)
		switch {
		case t.State == client.TaskAccepted:
			a.TellPerson("accepted: no report is wanted")
		case code == 0:
			a.PrintAnswer(words, data)
		default:
			fmt.Fprintf(a.Err, "acpctl %s: %s: %s\n", verb, t.State, client.Line(words))
		}
		if isTruncated(t.Result) {
			a.tellTruncated(verb)
		}
	}
	if code != 0 {
		return frame.Exit(code)
	}
	return nil
}
