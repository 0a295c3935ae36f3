package talk

import (
	"context"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Partial results are told as they come, each on one line of standard error; standard output has the outcome alone.
func TestWaitFollows(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodAck, &client.Acked{Removed: 1})
	f.SetHandler(client.MethodWait, func(r *jsonrpc.Request) (any, error) {
		var p client.WaitParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		task := &client.Task{ID: p.ID, Peer: "desk", Direction: client.Given, State: client.TaskCompleted, Partials: 2, Outcome: "all",
			Result: wire.Payload(`{"status":"completed","outcome":"all","data":[1]}`)}
		if p.AfterPartials != nil && *p.AfterPartials < 2 {
			n := *p.AfterPartials + 1
			task.State, task.Outcome, task.Result, task.Partials = client.TaskAccepted, "", nil, n
			task.Partial = wire.Payload(`{"status":"partial","outcome":"reading","progress":0.4,"message":"reading"}`)
			if n == 2 {
				task.Partial = wire.Payload(`{"status":"partial","outcome":"part\n2","progress":0.4,"message":"reading","data":{"n": 1}}`)
			}
		}
		return task, nil
	})
	f.WantResult(f.Run("wait", clitest.SomeID.String()), 0, "all\n[1]\n", "")
	f.WantResult(f.Run("wait", "-f", clitest.SomeID.String()), 0, "all\n[1]\n", "acpctl wait: 40 %, reading\nacpctl wait: 40 %, reading: part 2: {\"n\":1}\n")
	f.SetAnswer(client.MethodDelegate, &client.DelegateAnswer{ID: clitest.SomeID, From: clitest.DeskID, Payload: wire.Payload(`{"accepted":true}`)})
	f.WantResult(f.Run("delegate", "desk", "x", "--follow"), 0, "all\n[1]\n", "accepted: "+clitest.SomeID.String()+"\nacpctl delegate: 40 %, reading\nacpctl delegate: 40 %, reading: part 2: {\"n\":1}\n")
	if got := f.Run("wait", "--follow", "--json", clitest.SomeID.String()); strings.Count(got.Out, "\n") != 3 || !strings.Contains(got.Out, `"partial":{"status":"partial","outcome":"part\n2"`) {
		t.Errorf("%+v", got)
	}
}

// How a task ended is the exit code, and the last line of delegate --wait.
func TestOutcomes(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodDelegate, &client.DelegateAnswer{ID: clitest.SomeID, From: clitest.DeskID, Payload: wire.Payload(`{"accepted":true}`)})
	for _, c := range []struct {
		task client.Task
		code int
		line string
	}{
		{client.Task{State: client.TaskCompleted, Result: wire.Payload(`{"status":"completed","outcome":"x","more":1}`)}, 0, `"kind":"result","payload":{"status":"completed","outcome":"x","more":1}`},
		{client.Task{State: client.TaskFailed, Result: wire.Payload(`{"status":"failed","outcome":"x"}`)}, 7, `"kind":"result","payload":{"status":"failed","outcome":"x"}`},
		{client.Task{State: client.TaskFailed, Result: wire.Payload(`{"code":"internal","message":"x"}`)}, 7, `"kind":"error","payload":{"code":"internal","message":"x"}`},
		{client.Task{State: client.TaskFailed, Result: wire.Payload(`{"code":"not_trusted","message":"x"}`)}, 4, `"kind":"error","payload":{"code":"not_trusted","message":"x"}`},
		{client.Task{State: client.TaskFailed, Result: wire.Payload(`{"code":"no_agent","message":"x"}`)}, 5, `"kind":"error","payload":{"code":"no_agent","message":"x"}`},
		{client.Task{State: client.TaskCancelled, Outcome: "why"}, 7, `"kind":"error","payload":{"code":"cancelled","message":"why","retryable":false}`},
		{client.Task{State: client.TaskExpired}, 3, `"kind":"error","payload":{"code":"timeout","message":"the deadline passed","retryable":true}`},
		{client.Task{State: client.TaskAccepted}, 0, `"kind":"result","payload":{}`},
		{client.Task{State: "of_the_future"}, 7, `"kind":"error","payload":{}`},
	} {
		c.task.ID = clitest.SomeID
		f.SetAnswer(client.MethodWait, &c.task)
		if got := f.Run("wait", clitest.SomeID.String()); got.Code != c.code {
			t.Errorf("wait, %s: exit code %d", c.task.State, got.Code)
		}
		got := f.Run("delegate", "desk", "x", "--wait", "--json")
		_, last, _ := strings.Cut(got.Out, "\n")
		if want := `{"ref":"` + clitest.SomeID.String() + `","from":"` + clitest.DeskID.String() + `",` + c.line + "}\n"; got.Code != c.code || last != want {
			t.Errorf("delegate --wait, %s: exit code %d\ngot  %swant %s", c.task.State, got.Code, last, want)
		}
	}
	// The outcome in full is in the result.
	for payload, want := range map[string]clitest.Result{
		`{"status":"completed","outcome":"the whole of it"}`:                  {Code: 0, Out: "the whole of it\n", Err: ""},
		`{"status":"completed","outcome":"a part of it","truncated":true}`:    {Code: 0, Out: "a part of it\n", Err: "acpctl wait: the answer is not whole, the agent has cut it: ask for less at a time\n"},
		`{"status":"completed","outcome":"the whole of it","truncated":"no"}`: {Code: 0, Out: "the whole of it\n", Err: ""},
		`{"status":"failed","outcome":"the whole of it"}`:                     {Code: 7, Out: "", Err: "acpctl wait: failed: the whole of it\n"},
		`{"status":"failed","outcome":"a part of it","truncated":true}`:       {Code: 7, Out: "", Err: "acpctl wait: failed: a part of it\nacpctl wait: the answer is not whole, the agent has cut it: ask for less at a time\n"},
		`{"code":"internal","message":"the whole of it"}`:                     {Code: 7, Out: "", Err: "acpctl wait: failed: the whole of it\n"},
	} {
		task := &client.Task{ID: clitest.SomeID, State: client.TaskFailed, Outcome: "the wh…", Result: wire.Payload(payload)}
		if want.Code == 0 {
			task.State = client.TaskCompleted
		}
		f.SetAnswer(client.MethodWait, task)
		f.WantResult(f.Run("wait", clitest.SomeID.String()), want.Code, want.Out, want.Err)
		want.Err = "accepted: " + clitest.SomeID.String() + "\n" + strings.ReplaceAll(want.Err, "acpctl wait", "acpctl delegate")
		f.WantResult(f.Run("delegate", "desk", "x", "--wait"), want.Code, want.Out, want.Err)
	}
	f.SetAnswer(client.MethodWait, kinds.Errorf(kinds.DaemonUnavailable, "it went away"))
	f.WantResult(f.Run("delegate", "desk", "x", "--wait", "--id", clitest.SomeID.String()), 6, "",
		"accepted: "+clitest.SomeID.String()+"\nacpctl delegate: it went away; the task was accepted: see acpctl wait "+clitest.SomeID.String()+", or acpctl cancel "+clitest.SomeID.String()+"\n")
	f.SetAnswer(client.MethodDelegate, &client.DelegateAnswer{ID: clitest.SomeID, From: clitest.DeskID, Payload: wire.Payload(`{"accepted":false,"message":"busy"}`)})
	f.WantResult(f.Run("delegate", "desk", "x"), 4, "", "acpctl delegate: refused: busy\n")
	f.WantResult(f.Run("delegate", "desk", "x", "--wait", "--json"), 4, `{"id":"`+clitest.SomeID.String()+`","from":"`+clitest.DeskID.String()+
		`","payload":{"accepted":false,"message":"busy"},"error":{"code":"not_authorized","message":"busy","retryable":false}}`+"\n", "")
}

// What ended a delegation that was given is removed from the inbox when it is written. That it cannot
// be is said.
func TestAResultLeavesTheInboxWhenItIsWritten(t *testing.T) {
	f := newDaemon(t)
	var acked []client.AckParams
	f.SetHandler(client.MethodAck, func(r *jsonrpc.Request) (any, error) {
		var p client.AckParams
		err := r.ReadParams(&p)
		acked = append(acked, p)
		return &client.Acked{Removed: 1}, err
	})
	f.SetAnswer(client.MethodDelegate, &client.DelegateAnswer{ID: clitest.SomeID, From: clitest.DeskID, Payload: wire.Payload(`{"accepted":true}`)})
	id := clitest.SomeID.String()
	done := client.Task{ID: clitest.SomeID, Direction: client.Given, State: client.TaskCompleted, Result: wire.Payload(`{"status":"completed","outcome":"x"}`)}
	failed := client.Task{ID: clitest.SomeID, Direction: client.Given, State: client.TaskFailed, Result: wire.Payload(`{"status":"failed","outcome":"x"}`)}
	taken := done
	taken.Direction = client.Taken
	check := func(what string, acks int) {
		t.Helper()
		if len(acked) != acks || acks == 1 && acked[0].Ref != clitest.SomeID {
			t.Errorf("%s: acknowledged %+v", what, acked)
		}
		acked = nil
	}
	for _, args := range [][]string{{"wait", id}, {"wait", id, "--json"}, {"wait", id, "--for-model"}, {"delegate", "desk", "x", "--wait"}, {"delegate", "desk", "x", "--wait", "--json"}} {
		for _, task := range []*client.Task{&done, &failed} {
			f.SetAnswer(client.MethodWait, task)
			f.SetAnswer(client.MethodPeers, &client.Peers{})
			f.Run(args...)
			check(strings.Join(args, " "), 1)
			f.RunOnFullDisk(new(clitest.FullDisk), append([]string{"--home", f.Home}, args...)...)
			check("nothing could be written: "+strings.Join(args, " "), 0)
		}
	}
	f.SetAnswer(client.MethodWait, &taken)
	f.Run("wait", id)
	check("a task that was taken", 0)
	f.SetAnswer(client.MethodWait, &done)
	f.SetAnswer(client.MethodAck, kinds.Errorf(kinds.Internal, "the disk is gone"))
	f.WantResult(f.Run("wait", id), 0, "x\n", "acpctl wait: the result is in the inbox too: the disk is gone\n")
}

// Whoever stops waiting for a task knows its id, and how to go on.
func TestInterruptedWait(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodDelegate, &client.DelegateAnswer{ID: clitest.SomeID, From: clitest.DeskID, Payload: wire.Payload(`{"accepted":true}`)})
	ctx, interrupt := context.WithCancel(t.Context())
	gone := make(chan struct{})
	f.SetHandler(client.MethodWait, func(r *jsonrpc.Request) (any, error) { interrupt(); <-gone; return nil, nil })
	var out, talk strings.Builder
	code := f.RunWithoutHome(ctx, ui.Terminal{Out: &out, Err: &talk}, "--home", f.Home, "delegate", "desk", "x", "--wait", "--id", clitest.SomeID.String())
	close(gone)
	id := clitest.SomeID.String()
	f.WantResult(clitest.Result{Code: code, Out: out.String(), Err: talk.String()}, frame.ExitInterrupted, "",
		"accepted: "+id+"\nacpctl delegate: interrupted; the task was accepted: see acpctl wait "+id+", or acpctl cancel "+id+"\n")
}

// A deadline that passed without a word of the other side is still said in words.
func TestExpiredSaysWhy(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodWait, &client.Task{ID: clitest.SomeID, State: client.TaskExpired})
	f.WantResult(f.Run("wait", clitest.SomeID.String()), frame.ExitTimeout, "", "acpctl wait: expired: the deadline passed\n")
}
