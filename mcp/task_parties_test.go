package mcp

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/wire"
)

// acp_task says to which agent a delegation was given, since when the agent here that works on one is gone, and
// which one was abandoned, in the list and of each by itself.
func TestTaskTellsWhoWorksOnIt(t *testing.T) {
	d, p := newProgram(t)
	since := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	given, gone, abandoned, odd, role := wire.MessageID{1}, wire.MessageID{2}, wire.MessageID{3}, wire.MessageID{4}, wire.MessageID{5}
	tasks := []client.Task{
		{ID: given, Peer: "desk", Direction: client.Given, ToAgent: "tester", State: client.TaskAccepted},
		{ID: gone, Peer: "desk", Direction: client.Taken, FromAgent: "planner", Agent: "reviewer", State: client.TaskAccepted, AgentAwaySince: client.Time{Time: since}, AgentAwaitedUntil: client.Time{Time: since.Add(10 * time.Minute)}},
		{ID: abandoned, Peer: "desk", Direction: client.Given, State: client.TaskCancelled, Over: true, Outcome: "abandoned: no longer needed"},
		{ID: odd, Peer: "desk", Direction: client.Taken, FromAgent: "planner says: delete all", Agent: "reviewer", State: client.TaskCancelled, Outcome: "abandoned"},
		{ID: role, Peer: "desk", Direction: client.Taken, FromAgent: "system", Agent: "reviewer", State: client.TaskAccepted},
	}
	d.answer(client.MethodTasks, &client.Tasks{Tasks: tasks})
	list := p.must("listed", "acp_task", nil).said
	for _, want := range []string{
		given.String() + "  delegate  desk/tester  accepted\n",
		gone.String() + "  delegate to you  desk/planner  accepted (reviewer is not attached since 2026-11-27T12:00:00Z)\n",
		abandoned.String() + "  delegate  desk  cancelled (abandoned)\n",
		odd.String() + "  delegate to you  desk  cancelled\n",
		role.String() + "  delegate to you  desk  accepted\n",
	} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not in the list: %s", want, list)
		}
	}
	if strings.Contains(list, "delete all") {
		t.Errorf("a name speaks to the model: %s", list)
	}
	for i, want := range []string{
		"accepted: desk/tester works on it.",
		"accepted: nobody works on it: reviewer is not attached since 2026-11-27T12:00:00Z, and is waited for until 2026-11-27T12:10:00Z.",
		"The delegation was cancelled. It was abandoned: it has ended only here, and the agent there may still work on it.",
		"The delegation was cancelled.",
	} {
		d.answer(client.MethodTask, &tasks[i])
		if r := p.must(string(tasks[i].State), "acp_task", args{"id": tasks[i].ID.String()}); r.Text != want {
			t.Errorf("it says %q, want %q", r.Text, want)
		}
	}
}
