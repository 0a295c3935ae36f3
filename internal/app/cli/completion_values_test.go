package cli

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// A shell is offered what a flag or an argument can be, and nothing of it can steer a terminal.
func TestValuesAreOffered(t *testing.T) {
	f := newDaemon(t)
	ended := client.Task{ID: clitest.SomeID, Peer: "desk", Direction: client.Given, State: client.TaskCompleted, Task: "old"}
	open := ended
	open.ID[0], open.State, open.Task = 1, client.TaskAccepted, "new\x1b[2J\nline"
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{open, ended}})
	f.SetAnswer(client.MethodAgents, &client.Agents{Agents: []client.AgentState{
		{Agent: client.Agent{Name: "claude", Session: &client.SessionInfo{Harness: "claude"}}}, {Agent: client.Agent{Name: "reviewer"}},
	}})
	f.SetAnswer(client.MethodApprovals, &client.Approvals{Approvals: []client.Approval{{ID: "3", Name: "desk", Kind: "query", Agent: "claude", Message: clitest.SomeID}}})
	for _, tt := range []struct{ line, want string }{
		{"notify --importance|", "low medium high"},
		{"serve --tools|", "none read work"},
		{"serve --stderr|", "none last"},
		{"serve --kinds|", "query delegate"},
		{"serve --profile|", "claude codex opencode"},
		{"serve --confinement|", "bubblewrap landlock seatbelt outside none"},
		{"wake allow --kinds|", "query delegate notify result error"},
		{"wake allow --agent|", "claude"},
		{"wake answers --agent|", "claude"},
		{"agents mute|", "claude"},
		{"agents mute|x", ""},
		{"approvals yes|", "3"},
		{"wait|", open.ID.String() + " " + ended.ID.String()},
		{"cancel|", open.ID.String()},
		{"reply|", open.ID.String()},
	} {
		words, begun, _ := strings.Cut(tt.line, "|")
		got := f.Run(append(append([]string{"__complete"}, strings.Fields(words)...), begun)...)
		var offered []string
		for line := range strings.Lines(got.Out) {
			if value, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(value, ":") {
				offered = append(offered, value)
			}
		}
		if strings.Join(offered, " ") != tt.want || strings.Contains(got.Out, "\x1b") {
			t.Errorf("%s: %q", tt.line, got.Out)
		}
	}
}
