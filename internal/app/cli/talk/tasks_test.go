package talk

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// STATE tells what was declined from what has failed.
func TestTasksThatWereDeclined(t *testing.T) {
	f := newDaemon(t)
	task := func(outcome string) client.Task {
		return client.Task{ID: clitest.SomeID, Peer: "desk", Direction: client.Given, State: client.TaskFailed, Outcome: outcome}
	}
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{task("declined: not mine"), task("the build was declined")}})
	if got := f.Run("tasks"); strings.Count(got.Out, "\tdeclined\t") != 1 || strings.Count(got.Out, "\tfailed\t") != 1 {
		t.Errorf("%+v", got)
	}
}

// TestTasksJSON: the pages of the daemon's list are not in what is printed.
func TestTasksJSON(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{}})
	f.WantResult(f.Run("tasks", "--json"), 0, `{"tasks":[]}`+"\n", "")
}

// PEER has the agent there: that which a delegation is for, or that which gave it.
func TestTasksNameTheAgentThere(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{
		{ID: clitest.SomeID, Peer: "laptop", Direction: client.Given, ToAgent: "reviewer", State: client.TaskAccepted},
		{ID: clitest.SomeID, Peer: "build", Direction: client.Given, State: client.TaskAccepted},
		{ID: clitest.SomeID, Peer: "desk", Direction: client.Taken, FromAgent: "planner", Agent: "reviewer", State: client.TaskAccepted},
		{ID: clitest.SomeID, Peer: "desk", Direction: client.Taken, FromAgent: "no\tname", State: client.TaskAccepted},
	}})
	got := f.Run("tasks")
	for _, want := range []string{"\tgiven\tlaptop/reviewer\t", "\tgiven\tbuild\t", "\ttaken\tdesk/planner\t", "\ttaken\tdesk\t"} {
		if strings.Count(got.Out, want) != 1 {
			t.Errorf("%q is not there once: %+v", want, got)
		}
	}
}

// On a terminal a person sees who works for whom, since when, and how long it may take; a script has both times.
func TestTasksHaveTimesAndAgents(t *testing.T) {
	f := newDaemon(t)
	began := time.Now().Add(-90 * time.Minute)
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{
		{ID: clitest.SomeID, Peer: "laptop", Direction: client.Given, ToAgent: "reviewer", State: client.TaskAccepted, Task: "x", Began: client.Time{Time: began}, Deadline: client.Time{Time: began.Add(3 * time.Hour)}},
		{ID: clitest.SomeID, Peer: "desk", Direction: client.Taken, FromAgent: "planner", Agent: "builder", State: client.TaskCompleted, Task: "y", Began: client.Time{Time: began}},
		{ID: clitest.SomeID, Peer: "desk", Direction: client.Taken, State: client.TaskCompleted, Task: "of a daemon that says no time"},
		{ID: clitest.SomeID, Peer: "desk", Direction: client.Taken, State: client.TaskAccepted, Task: "without a deadline", Began: client.Time{Time: began}},
	}})
	got := f.RunAtTerminal(ui.Terminal{OutTTY: true}, "", "tasks").Out
	for _, want := range []string{"  → laptop/reviewer  ", " of 3h  x\n", "  builder ← desk/planner  completed  1h30m ago    y\n", "  -            of a daemon", "  accepted   1h30m        without a deadline"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if got := f.Run("tasks").Out; !strings.Contains(got, "\ty\t"+began.UTC().Format(time.RFC3339)+"\tbuilder\n") {
		t.Errorf("a script: %s", got)
	}
}
