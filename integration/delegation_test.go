package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

// TestDelegationIsAckedAtOnce and its result comes to who waits, to the agent that
// delegated, and to both tables, when the script ends.
func TestDelegationIsAckedAtOnce(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	gate := filepath.Join(live.MakeTempDir(t), "open")
	desk.serve("worker", "--prompt", "--", "sh", "-c", `read task; until test -e "$1"; do sleep 0.05; done; echo "$task: done"`, "sh", gate)
	results := make(chan *client.Inbound, 1)
	planner := laptop.attach(client.AttachParams{Name: "planner"}, client.Handler{
		Result: func(_ context.Context, in *client.Inbound) error {
			results <- in
			return nil
		},
	})

	// The scripts cannot end before the gate opens; the acks are there before.
	id := strings.TrimSpace(laptop.MustOutput("delegate", "desk", "Tidy up."))
	waiting := laptop.StartAcpctl("wait", id)
	own, err := planner.Delegate(await.NewContext(t), work("desk", "Paint it."))
	if err != nil {
		t.Fatal(err)
	}
	if said := laptop.MustOutput("tasks"); strings.Count(said, "\taccepted\t") != 2 {
		t.Errorf("tasks: %s", said)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if stdout := waiting.AwaitExit(0); stdout != "Tidy up.: done\n" {
		t.Errorf("wait says %q", stdout)
	}
	for range 2 { // its own, and that of acpctl, which is nobody's
		in := await.Receive(t, "result", results)
		r, err := kinds.ParsePayload[kinds.Result](in.Payload)
		if err != nil || in.Delegation == nil || in.Delegation.ID != *in.Ref {
			t.Fatalf("result %+v, %v", in, err)
		}
		want := "Tidy up.: done"
		if *in.Ref == own.ID {
			want = "Paint it.: done"
		}
		if r.Outcome != want || in.Name != "desk" {
			t.Errorf("result %q from %s, want %q", r.Outcome, in.Name, want)
		}
	}
	for _, m := range []*machine{desk, laptop} {
		await.Until(t, "completed on "+m.Name, func() bool { return strings.Count(m.MustOutput("tasks"), "\tcompleted\t") == 2 })
	}
}

// TestCancelEndsTheWholeProcessGroup: script, child and grandchild, also those that
// do not listen to TERM.
func TestCancelEndsTheWholeProcessGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trap   string
		within time.Duration
	}{
		"term": {":", time.Second},
		"kill": {"trap '' TERM", 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk, laptop := friends(t)
			script := newFifo(t)
			desk.serve("worker", "--", "sh", "-c", c.trap+`
				exec 3>"$1"
				sh -c '`+strings.ReplaceAll(c.trap, "'", `'\''`)+`
					sh -c "echo grandchild >&3; sleep 300; sleep 300" & echo child >&3; wait; sleep 300' &
				echo script >&3
				wait; sleep 300`, "sh", script.path)
			id := strings.TrimSpace(laptop.MustOutput("delegate", "desk", "Go on for ever."))
			waiting := laptop.StartAcpctl("wait", id)
			script.expect(3)
			if got := laptop.MustOutput("cancel", id, "plans have changed"); got != "cancelled\n" {
				t.Errorf("cancel says %q", got)
			}
			if stderr := waiting.AwaitFailure(7); !strings.Contains(stderr, "plans have changed") {
				t.Errorf("wait says %q", stderr)
			}
			script.gone(c.within)
			laptop.RunAcpctl(4, "cancel", id)
			if got := desk.MustOutput("tasks"); !strings.Contains(got, "\tcancelled\t") {
				t.Errorf("tasks of desk: %s", got)
			}
		})
	}
}

// TestAcceptedDelegationSurvivesBothDaemons: they are killed, the agent attaches
// again by itself and reports, and the owner hears of it.
func TestAcceptedDelegationSurvivesBothDaemons(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	taken := make(chan *client.Inbound, 1)
	worker := desk.attach(client.AttachParams{Name: "worker"}, client.Handler{
		Delegate: func(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
			taken <- in
			return nil, nil
		},
	})
	id := strings.TrimSpace(laptop.MustOutput("delegate", "desk", "Tidy up."))
	in := await.Receive(t, "task", taken)
	desk.KillDaemon()
	laptop.KillDaemon()
	desk.StartDaemon()
	laptop.StartDaemon()
	waiting := laptop.StartAcpctl("wait", id)
	desk.attached("worker")
	if tasks, err := desk.Client.Tasks(await.NewContext(t)); err != nil || len(tasks) != 1 || tasks[0].State != client.TaskAccepted || tasks[0].ID != in.ID {
		t.Fatalf("tasks of desk: %v, %v", tasks, err)
	}
	desk.connected(laptop)
	receipt, err := worker.SendResult(await.NewContext(t), client.ResultParams{Ref: in.ID, Payload: kinds.EncodePayload(&kinds.Result{Status: "completed", Outcome: "tidy"})})
	if err != nil || receipt.State != client.Held {
		t.Fatalf("result: %v, %v", receipt, err)
	}
	if stdout := waiting.AwaitExit(0); stdout != "tidy\n" {
		t.Errorf("wait says %q", stdout)
	}
	laptop.KillDaemon()
	laptop.StartDaemon()
	if got := laptop.MustOutput("wait", id); got != "tidy\n" {
		t.Errorf("after another restart wait says %q", got)
	}
	if got := laptop.MustOutput("inbox"); strings.Contains(got, id) {
		t.Errorf("the result that wait has printed is in the inbox again: %s", got)
	}
}

// TestTasksOfAKilledServe: the next process of the name tells their owner, and the
// name has no load of them. Those of other agents stay.
func TestTasksOfAKilledServe(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	script := newFifo(t)
	gate := filepath.Join(live.MakeTempDir(t), "open")
	t.Cleanup(func() { // what the killed one leaves behind ends before its files go
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Error(err)
		}
		script.gone(await.Patience)
	})
	sleep := []string{"--", "sh", "-c", `exec 3>"$1"; echo begun >&3; until test -e "$2"; do sleep 0.05; done`, "sh", script.path, gate}
	killed := desk.serve("worker", sleep...)
	desk.serve("other", sleep...)
	lost := strings.TrimSpace(laptop.MustOutput("delegate", "desk/worker", "Tidy up."))
	silent := strings.TrimSpace(laptop.MustOutput("delegate", "desk/worker", "Paint it.", "--no-report"))
	kept := strings.TrimSpace(laptop.MustOutput("delegate", "desk/other", "Tidy up."))
	script.expect(3)
	killed.Signal(syscall.SIGKILL)
	killed.AwaitEnd()
	await.Until(t, "detached", func() bool { return desk.agent("worker") == nil })
	tasks, err := desk.Client.Tasks(await.NewContext(t))
	if err != nil || len(tasks) != 3 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	for _, task := range tasks {
		if want := map[string]string{lost: "worker", kept: "other", silent: ""}[task.ID.String()]; task.Agent != want || task.State != client.TaskAccepted {
			t.Errorf("%s is %s by %q, want accepted by %q", task.ID, task.State, task.Agent, want)
		}
	}
	desk.serve("worker", "--", "cat")
	if said := laptop.RunAcpctl(7, "wait", lost).AwaitFailure(7); !strings.Contains(said, "the command's process ended before it was done") {
		t.Errorf("wait says %q", said)
	}
	await.Until(t, "the load is gone", func() bool { return desk.agent("worker").Active == 0 })
	for id, agent := range map[string]string{kept: "other", silent: "worker"} {
		if said := laptop.MustOutput("tasks"); !strings.Contains(said, id+"\tgiven\tdesk/"+agent+"\taccepted\t") {
			t.Errorf("%s is not accepted any more: %s", id, said)
		}
	}
}

// TestWaitLastsThroughAnOutageOfThePeer: who waits does not notice that the other
// daemon was killed meanwhile.
func TestWaitLastsThroughAnOutageOfThePeer(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	script := newFifo(t)
	gate := filepath.Join(live.MakeTempDir(t), "open")
	desk.serve("worker", "--", "sh", "-c", `echo begun >"$1"; until test -e "$2"; do sleep 0.05; done; echo done`, "sh", script.path, gate)
	id := strings.TrimSpace(laptop.MustOutput("delegate", "desk", "Tidy up."))
	waiting := laptop.StartAcpctl("wait", id)
	script.expect(1)
	desk.KillDaemon()
	desk.StartDaemon()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if stdout := waiting.AwaitExit(0); stdout != "done\n" {
		t.Errorf("wait says %q", stdout)
	}
}
