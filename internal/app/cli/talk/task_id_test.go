package talk

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// parseID parses an id that a test has written.
func parseID(t *testing.T, text string) wire.MessageID {
	t.Helper()
	id, err := wire.ParseMessageID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// The beginning of an id is enough where it means one delegation that the verb can be about.
func TestTaskIDsByTheirBeginning(t *testing.T) {
	const (
		given   = "3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b"
		near    = "3f2b8c1e-6f0b-4d3c-9e57-0c1d2e3f4a5b"
		taken   = "3f2b8c1e-7777-4d3c-9e57-0c1d2e3f4a5b"
		alone   = "9e000000-1111-4d3c-9e57-0c1d2e3f4a5b"
		asked   = "a1b2c3d4-1111-4d3c-9e57-0c1d2e3f4a5b"
		missing = "ID: no delegation that was given here has an id that begins with "
	)
	f := newDaemon(t)
	listed := 0
	f.SetHandler(client.MethodTasks, func(*jsonrpc.Request) (any, error) {
		listed++
		return &client.Tasks{Tasks: []client.Task{
			{ID: parseID(t, given), Peer: "desk", Direction: client.Given, State: client.TaskAccepted, Task: "Run\x1b[2J the test suite"},
			{ID: parseID(t, near), Peer: "desk", Direction: client.Given, State: client.TaskCompleted, Task: strings.Repeat("long ", 40)},
			{ID: parseID(t, taken), Peer: "laptop", Direction: client.Taken, FromAgent: "planner", State: client.TaskAccepted, Task: "Review"},
			{ID: parseID(t, alone), Peer: "laptop", Direction: client.Taken, State: client.TaskAccepted, Task: "Build"},
			{ID: parseID(t, given), Peer: "laptop", Direction: client.Given, State: client.TaskAccepted, Question: &client.QuestionBack{ID: parseID(t, asked), Text: "Which branch?"}},
		}}, nil
	})
	var cancelled []wire.MessageID
	f.SetHandler(client.MethodCancel, func(r *jsonrpc.Request) (any, error) {
		var p client.CancelParams
		err := r.ReadParams(&p)
		cancelled = append(cancelled, p.Ref)
		return &client.CancelAnswer{Ref: p.Ref, Payload: kinds.EncodePayload(&kinds.Ack{Accepted: true})}, err
	})
	for text, want := range map[string]string{
		given: given, strings.ToUpper(given): given, "3f2b8c1e-6f0a": given, "3F2B8C1E-6F0B-4": near,
	} {
		cancelled = nil
		f.WantResult(f.Run("cancel", text), 0, "cancelled\n", "")
		if len(cancelled) != 1 || cancelled[0].String() != want {
			t.Errorf("%s: %s, want %s", text, cancelled, want)
		}
	}
	if listed != 2 {
		t.Errorf("the list was asked for %d times, for two ids that are not whole", listed)
	}
	cancelled = nil
	const hint = "; only who delegated can cancel: acpctl reply ID --failed TEXT ends what was taken here\n"
	f.WantResult(f.Run("cancel", "3f2b8c1e"), frame.ExitUsage, "", "acpctl cancel: ID: 3f2b8c1e begins 2 ids: write more of the one that is meant: acpctl tasks lists them\nSee: acpctl cancel --help\n")
	f.WantResult(f.Run("cancel", "9e0000"), frame.ExitLocal, "", "acpctl cancel: "+missing+"9e0000: see acpctl tasks"+hint) // it was taken
	f.WantResult(f.Run("cancel", "3f2b8c1e-7"), frame.ExitLocal, "", "acpctl cancel: "+missing+"3f2b8c1e-7: see acpctl tasks"+hint)
	for _, text := range []string{"3f2b8", "3f2b8c1e6f0a", "3f2b8c1-", "planner", "", given + "0", "3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5x", "3f2b8c1e--"} {
		if got := f.Run("cancel", text); got.Code != frame.ExitUsage || text != "" && !strings.Contains(got.Err, "or 6 or more characters that begin the id of a delegation\n") {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if len(cancelled) > 0 {
		t.Errorf("%s was called off", cancelled)
	}

	var waited client.WaitParams
	f.SetHandler(client.MethodWait, func(r *jsonrpc.Request) (any, error) {
		waited = client.WaitParams{}
		err := r.ReadParams(&waited)
		return &client.Task{ID: waited.ID, State: client.TaskCompleted, Outcome: "done"}, err
	})
	if got := f.Run("wait", "9e0000"); got.Code != 0 || waited.ID.String() != alone {
		t.Errorf("%+v, %s", got, waited.ID)
	}
	if got := f.Run("wait", "3f2b8c1e"); got.Code != frame.ExitUsage || !strings.Contains(got.Err, "begins 3 ids") {
		t.Errorf("%+v", got)
	}

	var answered client.AnswerParams
	f.SetHandler(client.MethodAnswer, func(r *jsonrpc.Request) (any, error) {
		answered = client.AnswerParams{}
		err := r.ReadParams(&answered)
		return &client.Answered{ID: answered.Ref, Delegation: answered.Ref}, err
	})
	f.SetAnswer(client.MethodTask, kinds.Errorf(kinds.NotFound, "no delegation"))
	if got := f.Run("reply", "a1b2c3", "main"); got.Code != 0 || answered.Ref.String() != asked {
		t.Errorf("%+v, %s", got, answered.Ref)
	}
	if got := f.Run("wait", "a1b2c3"); got.Code != frame.ExitLocal { // a question is nothing to wait for
		t.Errorf("%+v", got)
	}

	var asks client.QueryParams
	f.SetHandler(client.MethodQuery, func(r *jsonrpc.Request) (any, error) {
		asks = client.QueryParams{}
		err := r.ReadParams(&asks)
		return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", Payload: kinds.EncodePayload(&kinds.Response{Summary: "main"})}, err
	})
	if got := f.Run("query", "--ref", "3f2b8c1e", "Which branch?"); got.Code != 0 || asks.Ref.String() != taken {
		t.Errorf("%+v, %s", got, asks.Ref)
	}
}
