package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/wire"
)

// There is a finding for each agent, whatever the number of its delegations: it names the oldest of
// them, since when nobody works on it, both ways out, and what happens without.
func TestAwayAgentIsTold(t *testing.T) {
	since := client.Time{Time: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	task := func(id wire.MessageID, agent string, away client.Time, awaited time.Duration) client.Task {
		task := client.Task{ID: id, Peer: "laptop", Direction: client.Taken, Agent: agent, State: client.TaskAccepted, AgentAwaySince: away}
		if !away.IsZero() {
			task.AgentAwaitedUntil = client.Time{Time: away.Add(awaited)}
		}
		return task
	}
	tasks := []client.Task{
		task(wire.NewMessageID(), "tester", since, time.Hour),
		task(wire.NewMessageID(), "reviewer", client.Time{}, 0),
		task(wire.NewMessageID(), "builder", since, time.Minute),
		task(clitest.SomeID, "tester", since, 10*time.Minute),
	}
	all := faked(func(d *clitest.FakeDaemon, s *client.Status, _ *Options) {
		s.TasksTaken = len(tasks)
		d.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: tasks})
	}).find(t)
	var found []Finding
	for _, f := range all {
		if f.Code == "agent.away" {
			found = append(found, f)
		}
	}
	if len(found) != 2 || found[0].Subject != "builder" || found[1].Subject != "tester" {
		t.Fatalf("%+v", found)
	}
	f := &found[1]
	for _, want := range []string{"2 delegations", "2026-11-27T12:00:00Z", clitest.SomeID.String(), "laptop"} {
		if !strings.Contains(f.What, want) {
			t.Errorf("%q lacks %q", f.What, want)
		}
	}
	for _, want := range []string{"acpctl serve --name tester", "at laptop: acpctl cancel " + clitest.SomeID.String(), "2026-11-27T12:10:00Z"} {
		if !strings.Contains(f.Remedy, want) {
			t.Errorf("%q lacks %q", f.Remedy, want)
		}
	}
}
