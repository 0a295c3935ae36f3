package cli

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/clitest"
	"github.com/acpd/acpd/kinds"
)

// Who lets a peer wake sessions reads which of them nothing can wake, and so does who lists them.
func TestUnwakeableSessionsAreTold(t *testing.T) {
	f := newDaemon(t)
	session := func(name, why string) client.AgentState {
		return client.AgentState{Agent: client.Agent{Name: name, MaxConcurrent: 16, Session: &client.SessionInfo{Harness: name, Unwakeable: why}}, Woken: &client.Woken{}}
	}
	f.SetAnswer(client.MethodAgents, client.Agents{Agents: []client.AgentState{session("claude", ""), session("codex", "it has no folder ~/.codex here"), {Agent: client.Agent{Name: "serve"}}}})
	f.SetAnswer(client.MethodWakeAllow, &client.WakeRules{Rules: []client.WakeRule{{Peer: clitest.DeskID, Name: "desk", Kind: kinds.KindQuery}}})
	told := "codex cannot be woken: it has no folder ~/.codex here\n"
	for agent, err := range map[string]string{"": told, "codex": told, "claude": ""} {
		if got := f.Run("wake", "allow", "desk", "--agent", agent); got.Code != 0 || got.Err != err {
			t.Errorf("for %q: %+v", agent, got)
		}
	}
	if got := f.Run("agents"); !strings.Contains(got.Out, "0 of 16 under way, cannot be woken: it has no folder ~/.codex here\n") || strings.Count(got.Out, "cannot") != 1 {
		t.Errorf("%+v", got)
	}
}
