package talk

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// Tasks says of a delegation that its agent is not attached, since when, and who knows more.
func TestAwayAgentIsTold(t *testing.T) {
	f := newDaemon(t)
	since := client.Time{Time: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	const said = "(reviewer is not attached, seen last 2026-11-27T12:00:00Z: acpctl doctor)"
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{
		{ID: clitest.SomeID, Peer: "desk", Direction: client.Taken, Agent: "reviewer", State: client.TaskAccepted, Task: "Build.", AgentAwaySince: since, AgentAwaitedUntil: since},
		{ID: clitest.SomeID, Peer: "desk", Direction: client.Taken, Agent: "tester", State: client.TaskAccepted, Task: "Test."},
	}})
	if got := f.Run("tasks"); strings.Count(got.Out, "\tBuild. "+said+"\t") != 1 || !strings.Contains(got.Out, "\tTest.\t") {
		t.Errorf("%+v", got)
	}
}
