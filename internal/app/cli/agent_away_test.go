package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// Tasks and waiting say of a delegation that its agent is not attached, since when, and who knows more.
func TestAwayAgentIsTold(t *testing.T) {
	f := newDaemon(t)
	since := client.Time{Time: noon}
	const said = "(reviewer is not attached since 2026-11-27T12:00:00Z: acpctl doctor)"
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{
		{ID: clitest.SomeID, Peer: "desk", Direction: client.Taken, Agent: "reviewer", State: client.TaskAccepted, Task: "Build.", AgentAwaySince: since, AgentAwaitedUntil: since},
		{ID: clitest.SomeID, Peer: "desk", Direction: client.Taken, Agent: "tester", State: client.TaskAccepted, Task: "Test."},
	}})
	if got := f.Run("tasks"); strings.Count(got.Out, "\tBuild. "+said+"\t") != 1 || !strings.Contains(got.Out, "\tTest.\t") {
		t.Errorf("%+v", got)
	}
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected}}})
	f.SetAnswer(client.MethodTraffic, &client.TrafficAnswer{Open: []client.TrafficEntry{
		{At: noon, ID: clitest.SomeID, Direction: client.In, Peer: clitest.DeskID, Name: "desk", Agent: "reviewer", Kind: "delegate", Text: "Build.", AgentAwaySince: since},
	}})
	if got := f.Run("waiting"); strings.Count(got.Out, "\tBuild. "+said+"\n") != 1 {
		t.Errorf("%+v", got)
	}
	if got := f.Run("waiting", "--json"); !strings.Contains(got.Out, `"text":"Build."`) || !strings.Contains(got.Out, `"agent_away_since":"2026-11-27T12:00:00Z"`) {
		t.Errorf("%+v", got)
	}
}
