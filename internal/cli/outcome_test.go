package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Partial results are printed as they come, the outcome last.
func TestWaitFollows(t *testing.T) {
	f := newFake(t)
	f.does(client.MethodWait, func(r *client.Request) (any, error) {
		var p client.WaitParams
		if err := r.Bind(&p); err != nil {
			return nil, err
		}
		task := &client.Task{ID: p.ID, Peer: "desk", Direction: client.Given, State: client.TaskCompleted, Partials: 2, Outcome: "all",
			Result: wire.Payload(`{"status":"completed","outcome":"all","data":[1]}`)}
		if p.AfterPartials != nil && *p.AfterPartials < 2 {
			n := *p.AfterPartials + 1
			task.State, task.Outcome, task.Result, task.Partials = client.TaskAccepted, "", nil, n
			task.Partial = fmt.Appendf(nil, `{"status":"partial","outcome":"part %d"}`, n)
		}
		return task, nil
	})
	f.want(f.run("wait", someID.String()), 0, "all\n[1]\n", "")
	f.want(f.run("wait", "-f", someID.String()), 0, "part 1\npart 2\nall\n[1]\n", "")
	if got := f.run("wait", "--follow", "--json", someID.String()); strings.Count(got.out, "\n") != 3 || !strings.Contains(got.out, `"partial":{"status":"partial","outcome":"part 2"}`) {
		t.Errorf("%+v", got)
	}
}

// How a task ended is the exit code, and the last line of delegate --wait.
func TestOutcomes(t *testing.T) {
	f := newFake(t)
	f.on(client.MethodDelegate, &client.Delegated{ID: someID, From: deskID, Payload: wire.Payload(`{"accepted":true}`)})
	for _, c := range []struct {
		task client.Task
		code int
		line string
	}{
		{client.Task{State: client.TaskCompleted, Result: wire.Payload(`{"status":"completed","outcome":"x","more":1}`)}, 0, `"kind":"result","payload":{"status":"completed","outcome":"x","more":1}`},
		{client.Task{State: client.TaskFailed, Result: wire.Payload(`{"status":"failed","outcome":"x"}`)}, 7, `"kind":"result","payload":{"status":"failed","outcome":"x"}`},
		{client.Task{State: client.TaskFailed, Result: wire.Payload(`{"code":"internal","message":"x"}`)}, 7, `"kind":"error","payload":{"code":"internal","message":"x"}`},
		{client.Task{State: client.TaskFailed, Result: wire.Payload(`{"code":"not_trusted","message":"x"}`)}, 4, `"kind":"error","payload":{"code":"not_trusted","message":"x"}`},
		{client.Task{State: client.TaskCancelled, Outcome: "why"}, 7, `"kind":"error","payload":{"code":"cancelled","message":"why","retryable":false}`},
		{client.Task{State: client.TaskExpired}, 3, `"kind":"error","payload":{"code":"timeout","message":"the deadline passed","retryable":true}`},
		{client.Task{State: client.TaskAccepted}, 0, `"kind":"result","payload":{}`},
		{client.Task{State: "of_the_future"}, 7, `"kind":"error","payload":{}`},
	} {
		c.task.ID = someID
		f.on(client.MethodWait, &c.task)
		if got := f.run("wait", someID.String()); got.code != c.code {
			t.Errorf("wait, %s: exit code %d", c.task.State, got.code)
		}
		got := f.run("delegate", "desk", "x", "--wait", "--json")
		_, last, _ := strings.Cut(got.out, "\n")
		if want := `{"ref":"` + someID.String() + `","from":"` + deskID.String() + `",` + c.line + "}\n"; got.code != c.code || last != want {
			t.Errorf("delegate --wait, %s: exit code %d\ngot  %swant %s", c.task.State, got.code, last, want)
		}
	}
	// The outcome in full is in the result.
	for payload, want := range map[string]ran{
		`{"status":"completed","outcome":"the whole of it"}`:                  {0, "the whole of it\n", ""},
		`{"status":"completed","outcome":"a part of it","truncated":true}`:    {0, "a part of it\n", "acpctl wait: the answer is not whole, the agent has cut it: ask for less at a time\n"},
		`{"status":"completed","outcome":"the whole of it","truncated":"no"}`: {0, "the whole of it\n", ""},
		`{"status":"failed","outcome":"the whole of it"}`:                     {7, "", "acpctl wait: failed: the whole of it\n"},
		`{"status":"failed","outcome":"a part of it","truncated":true}`:       {7, "", "acpctl wait: failed: a part of it\nacpctl wait: the answer is not whole, the agent has cut it: ask for less at a time\n"},
		`{"code":"internal","message":"the whole of it"}`:                     {7, "", "acpctl wait: failed: the whole of it\n"},
	} {
		task := &client.Task{ID: someID, State: client.TaskFailed, Outcome: "the wh…", Result: wire.Payload(payload)}
		if want.code == 0 {
			task.State = client.TaskCompleted
		}
		f.on(client.MethodWait, task)
		f.want(f.run("wait", someID.String()), want.code, want.out, want.err)
		want.err = "accepted: " + someID.String() + "\n" + strings.ReplaceAll(want.err, "acpctl wait", "acpctl delegate")
		f.want(f.run("delegate", "desk", "x", "--wait"), want.code, want.out, want.err)
	}
	f.on(client.MethodWait, kinds.Errorf(kinds.DaemonUnavailable, "it went away"))
	f.want(f.run("delegate", "desk", "x", "--wait", "--id", someID.String()), 6, "",
		"accepted: "+someID.String()+"\nacpctl delegate: it went away; the task was accepted: see acpctl wait "+someID.String()+", or acpctl cancel "+someID.String()+"\n")
	f.on(client.MethodDelegate, &client.Delegated{ID: someID, From: deskID, Payload: wire.Payload(`{"accepted":false,"message":"busy"}`)})
	f.want(f.run("delegate", "desk", "x"), 4, "", "acpctl delegate: refused: busy\n")
	f.want(f.run("delegate", "desk", "x", "--wait", "--json"), 4, `{"id":"`+someID.String()+`","from":"`+deskID.String()+
		`","payload":{"accepted":false,"message":"busy"},"error":{"code":"not_authorized","message":"busy","retryable":false}}`+"\n", "")
}

// Whoever stops waiting for a task knows its id, and how to go on.
func TestInterruptedWait(t *testing.T) {
	f := newFake(t)
	f.on(client.MethodDelegate, &client.Delegated{ID: someID, From: deskID, Payload: wire.Payload(`{"accepted":true}`)})
	ctx, interrupt := context.WithCancel(t.Context())
	gone := make(chan struct{})
	f.does(client.MethodWait, func(r *client.Request) (any, error) { interrupt(); <-gone; return nil, nil })
	var out, talk strings.Builder
	a := &app{out: &out, err: &talk}
	code := a.run(ctx, []string{"--home", f.home, "delegate", "desk", "x", "--wait", "--id", someID.String()})
	close(gone)
	a.daemon.Close()
	id := someID.String()
	f.want(ran{code, out.String(), talk.String()}, exitInterrupted, "",
		"accepted: "+id+"\nacpctl delegate: interrupted; the task was accepted: see acpctl wait "+id+", or acpctl cancel "+id+"\n")
}

// A deadline that passed without a word of the other side is still said in words.
func TestExpiredSaysWhy(t *testing.T) {
	f := newFake(t)
	f.on(client.MethodWait, &client.Task{ID: someID, State: client.TaskExpired})
	f.want(f.run("wait", someID.String()), exitTimeout, "", "acpctl wait: expired: the deadline passed\n")
}
