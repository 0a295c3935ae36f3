package cli

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/clitest"
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
