package web

import (
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestAgentsThatAreAway: a delegation whose agent here is gone says since when, whoever has told of it first, and
// until when it waits for that agent.
func TestAgentsThatAreAway(t *testing.T) {
	since, until := client.Time{Time: began}, client.Time{Time: began.Add(10 * time.Minute)}
	task := client.Task{ID: wire.MessageID{15: 1}, Peer: "desk", Direction: client.Taken, FromAgent: "planner", Agent: "tester", State: client.TaskAccepted, Task: "test"}
	call := client.TrafficEntry{At: began, Direction: client.In, Peer: deskID, Name: "desk", FromAgent: "planner", Agent: "tester", Kind: kinds.KindDelegate, ID: task.ID, Text: "test"}
	away, awayCall := task, call
	away.AgentAwaySince, away.AgentAwaitedUntil, awayCall.AgentAwaySince = since, until, since
	for name, c := range map[string]struct {
		work        work
		away, until client.Time
	}{
		"it is there":      {work{open: []client.TrafficEntry{call}, tasks: []client.Task{task}}, client.Time{}, client.Time{}},
		"the call says so": {work{open: []client.TrafficEntry{awayCall}, tasks: []client.Task{task}}, since, client.Time{}},
		"both say so":      {work{open: []client.TrafficEntry{awayCall}, tasks: []client.Task{away}}, since, until},
		"no call is known": {work{tasks: []client.Task{away}}, since, until},
		"no task was read": {work{open: []client.TrafficEntry{awayCall}}, since, client.Time{}},
	} {
		rows := c.work.listWaiting()
		if len(rows) != 1 || rows[0].AgentAway != c.away || rows[0].AgentUntil != c.until {
			t.Errorf("%s: %+v", name, rows)
		}
	}
	if r := newTaskRow(&away, 0); r.AgentAway != since || r.AgentUntil != until || r.Abandoned {
		t.Errorf("%+v", r)
	}
	task.Direction, task.State, task.Outcome = client.Given, client.TaskCancelled, "abandoned: no longer needed"
	if r := newTaskRow(&task, 0); !r.Abandoned {
		t.Errorf("%+v", r)
	}
}
