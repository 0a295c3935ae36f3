package talk

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// newKeptError returns the error of a call whose message the daemon keeps until then.
func newKeptError(until time.Time) *kinds.Error {
	e := kinds.Errorf(kinds.Kept, "laptop: kept")
	e.Details = kinds.EncodePayload(&struct {
		Delivered kinds.Delivered `json:"delivered"`
		Kept      client.Kept     `json:"kept"`
	}{kinds.DeliveredNo, client.Kept{ID: clitest.SomeID, Until: client.Time{Time: until}, LastError: "laptop is unreachable"}}).Object()
	return e
}

// A message that is kept is neither data nor a success: standard output has only what --json prints.
func TestKeptMessages(t *testing.T) {
	f := newDaemon(t)
	until := time.Date(2030, 1, 2, 9, 0, 0, 0, time.UTC)
	keep := make(map[string]uint64)
	f.SetHandler(client.MethodQuery, func(r *jsonrpc.Request) (any, error) {
		var p client.QueryParams
		err := r.ReadParams(&p)
		keep["query"] = p.KeepMS
		if err == nil {
			err = newKeptError(until)
		}
		return nil, err
	})
	f.SetHandler(client.MethodDelegate, func(r *jsonrpc.Request) (any, error) {
		var p client.DelegateParams
		err := r.ReadParams(&p)
		keep["delegate"] = p.KeepMS
		if err == nil {
			err = newKeptError(until)
		}
		return nil, err
	})
	id := clitest.SomeID.String()
	said := ": kept until " + ui.FormatMoment(until) + " for laptop (laptop is unreachable): acpctl wait " + id + " tells how it ends, and acpctl cancel withdraws it\n"
	f.WantResult(f.Run("query", "laptop", "--keep", "3d", "Ready?"), 8, "", "acpctl query"+said)
	f.WantResult(f.Run("delegate", "--keep", "laptop", "--wait", "Test it"), 8, "", "acpctl delegate"+said)
	if keep["query"] != 72*3600*1000 || keep["delegate"] != 24*3600*1000 {
		t.Errorf("keep_ms: %v", keep)
	}
	object := `"id":"` + id + `","state":"kept","kept":{"id":"` + id + `","until":"2030-01-02T09:00:00Z","tries":0,"last_error":"laptop is unreachable"}}` + "\n"
	f.WantResult(f.Run("query", "laptop", "--keep", "--json", "Ready?"), 8, "{"+object, "")

	failed := kinds.Errorf(kinds.UnknownPeer, "to: no such peer")
	for _, c := range []struct {
		desk *client.Receipt
		code int
	}{{&client.Receipt{To: "desk", State: client.Held}, 8}, {&client.Receipt{To: "desk", Error: failed}, 5}} {
		f.SetAnswer(client.MethodNotify, []*client.Receipt{{To: "laptop", ID: clitest.SomeID, Error: newKeptError(until)}, c.desk})
		got := f.Run("notify", "laptop,desk", "a.b", "1", "--keep")
		if got.Code != c.code || !strings.Contains(got.Err, "acpctl notify"+said) || strings.Contains(got.Out, "laptop") {
			t.Errorf("%+v", got)
		}
		if got := f.Run("notify", "laptop,desk", "a.b", "1", "--keep", "--json"); got.Code != c.code || !strings.HasPrefix(got.Out, `{"to":"laptop",`+object) {
			t.Errorf("%+v", got)
		}
	}
	for _, args := range [][]string{
		{"query", "laptop", "Q", "--keep", "--wait-online", "3s"}, {"query", "--ref", id, "Q", "--keep"},
		{"notify", "laptop", "a.b", "1", "--keep", "--no-wait"}, {"query", "laptop", "Q", "--keep", "8d"},
	} {
		if got := f.Run(args...); got.Code != 2 || got.Out != "" || !strings.Contains(got.Err, "--keep: ") {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

func TestTasksShowWhatIsKept(t *testing.T) {
	f := newDaemon(t)
	kept := &client.Kept{ID: clitest.SomeID, Until: client.Time{Time: time.Now().AddDate(0, 0, 1)}, Tries: 3, LastError: "laptop is unreachable"}
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{
		{ID: clitest.SomeID, Kind: kinds.KindQuery, Peer: "laptop", Direction: client.Given, State: client.TaskKept, Task: "Ready?", Kept: kept},
		{ID: clitest.SomeID, Kind: kinds.KindNotify, Peer: "laptop", Direction: client.Given, State: client.TaskWithdrawn, Task: "build.done"},
	}})
	got := f.RunAtTerminal(ui.Terminal{OutTTY: true}, "", "tasks").Out
	for _, want := range []string{"  kept ", "  query: Ready? (until tomorrow " + kept.Until.Local().Format("15:04") + ", tried 3 times: laptop is unreachable)\n", "  withdrawn ", "  notify: build.done\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if got := f.Run("tasks").Out; !strings.Contains(got, "\tgiven\tlaptop\tkept\t-\tquery: Ready? (until "+kept.Until.UTC().Format(time.RFC3339)+", tried 3 times: laptop is unreachable)\t-\t-\n") {
		t.Errorf("a script: %s", got)
	}
}

// The exit code of wait says how a message ended that was kept.
func TestWaitForKeptMessages(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodAck, &client.Acked{})
	id := clitest.SomeID.String()
	for _, c := range []struct {
		task     client.Task
		code     int
		out, err string
	}{
		{client.Task{Kind: kinds.KindQuery, State: client.TaskCompleted, Result: kinds.EncodePayload(&kinds.Result{Status: "completed", Outcome: "Yes."})}, 0, "Yes.\n", ""},
		{client.Task{Kind: kinds.KindNotify, State: client.TaskHanded}, 0, "handed\n", ""},
		{client.Task{Kind: kinds.KindNotify, State: client.TaskHeld}, 0, "held\n", ""},
		{client.Task{Kind: kinds.KindQuery, State: client.TaskRefused, Result: kinds.EncodePayload(kinds.Errorf(kinds.NotAuthorized, "no rule allows it"))}, 4, "", "acpctl wait: refused: no rule allows it\n"},
		{client.Task{Kind: kinds.KindQuery, State: client.TaskExpired, Outcome: "it did not arrive"}, 3, "", "acpctl wait: expired: it did not arrive\n"},
		{client.Task{Kind: kinds.KindNotify, State: client.TaskWithdrawn, Outcome: "withdrawn"}, 7, "", "acpctl wait: withdrawn\n"},
		{client.Task{Kind: kinds.KindNotify, State: client.TaskUnknown, Over: true, Outcome: "it may have arrived"}, 7, "", "acpctl wait: unknown: it may have arrived\n"},
	} {
		c.task.ID, c.task.Peer, c.task.Direction = clitest.SomeID, "laptop", client.Given
		f.SetAnswer(client.MethodWait, &c.task)
		f.WantResult(f.Run("wait", id), c.code, c.out, c.err)
	}
}
