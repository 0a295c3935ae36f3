package daemon

import (
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// While the agent that has accepted a delegation is not attached, its daemon says so of the task and of
// the open call, until an agent of the name is.
func TestAwayAgentIsShownWithItsTask(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	given := delegateTo(desk.dial(), "laptop/reviewer", task1(""))
	owner := laptop.dial()
	read := func() (task *client.Task, open *client.TrafficEntry) {
		t.Helper()
		var traffic client.TrafficAnswer
		owner.must("traffic", client.TrafficParams{Open: true, Limit: 1}, &traffic)
		if len(traffic.Open) != 1 {
			t.Fatalf("%+v", traffic.Open)
		}
		return owner.state(given.ID), &traffic.Open[0]
	}
	if task, open := read(); !task.AgentAwaySince.IsZero() || !task.AgentAwaitedUntil.IsZero() || !open.AgentAwaySince.IsZero() {
		t.Errorf("its agent is attached: %+v, %+v", task, open)
	}
	worker.Close()
	await.Until(t, "the agent is away", func() bool { return !owner.state(given.ID).AgentAwaySince.IsZero() })
	task, open := read()
	if task.Agent != "reviewer" || task.State != client.TaskAccepted || !task.AgentAwaitedUntil.After(task.AgentAwaySince.Time) || !open.AgentAwaySince.Equal(task.AgentAwaySince.Time) {
		t.Errorf("%+v, %+v", task, open)
	}
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	if task, open := read(); !task.AgentAwaySince.IsZero() || !open.AgentAwaySince.IsZero() {
		t.Errorf("an agent of the name is attached: %+v, %+v", task, open)
	}
}
