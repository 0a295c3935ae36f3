package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/kinds"
)

// Who lets a peer wake sessions reads which of them nothing can wake, and so does who lists them.
func TestUnwakeableSessionsAreTold(t *testing.T) {
	f := newDaemon(t)
	session := func(name, version, why string) client.AgentState {
		return client.AgentState{Agent: client.Agent{Name: name, MaxConcurrent: 16, Session: &client.SessionInfo{Harness: name, Version: version, Unwakeable: why}}, Woken: &client.Woken{}}
	}
	f.SetAnswer(client.MethodAgents, client.Agents{Agents: []client.AgentState{session("claude", "999.0.0", ""), {Agent: client.Agent{Name: "codex-2", Session: &client.SessionInfo{Harness: "codex", Asks: "Codex"}}, Woken: &client.Woken{}}, session("codex", "0.169.0", "it has no folder ~/.codex here"), {Agent: client.Agent{Name: "serve"}}}})
	f.SetAnswer(client.MethodWakeAllow, &client.WakeRules{Rules: []client.WakeRule{{Peer: clitest.DeskID, Name: "desk", Kind: kinds.KindQuery}}})
	told := "codex cannot be woken: it has no folder ~/.codex here\n"
	can, asks := "claude can be woken now. To try it: acpctl wake test claude\n", "codex-2 can be woken now. To try it: acpctl wake test codex-2\n"
	for agent, err := range map[string]string{"": can + asks + told, "codex": told, "claude": can, "serve": "No session serve is attached now: the rule waits for one. To have one: start a program that acpctl setup has connected\n"} {
		if got := f.Run("wake", "allow", "desk", "--agent", agent); got.Code != 0 || got.Err != err {
			t.Errorf("for %q: %+v", agent, got)
		}
	}
	f.SetAnswer(client.MethodPeers, &client.Peers{})
	if got := f.Run("agents"); !strings.Contains(got.Out, " under way, Codex asks its user\n") || !strings.Contains(got.Out, "0 of 16 under way\tcannot be woken: it has no folder ~/.codex here\n") || strings.Count(got.Out, "cannot") != 1 || strings.Count(got.Out, "under way, newer than tested (2.") != 1 {
		t.Errorf("%+v", got)
	}
}

// Who lets a peer wake a session reads whether that could be woken now, and what to do if not.
func TestWhatKeepsASessionFromBeingWokenIsTold(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodWakeAllow, &client.WakeRules{})
	later := client.Time{Time: time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)}
	for want, woken := range map[string]client.Woken{
		"claude is muted until 2026-11-29T03:00:00Z: acpctl agents mute claude 0s ends that\n": {MutedUntil: later},
		"claude was not woken a moment ago: the session is unattended\n":                       {Refused: "the session is unattended"},
		"claude can be woken, after your yes: acpctl approvals\n":                              {By: []client.WokenBy{{Name: "other", UsedUpUntil: later}}},
	} {
		f.SetAnswer(client.MethodAgents, client.Agents{Agents: []client.AgentState{{Agent: client.Agent{Name: "claude", Session: &client.SessionInfo{Harness: "claude"}}, Woken: &woken}}})
		if got := f.Run("wake", "allow", "desk", "--ask"); got.Code != 0 || got.Err != want {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}

// Where nobody can be woken yet, that is said too.
func TestARuleWaitsForASession(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodAgents, client.Agents{Agents: []client.AgentState{}})
	f.SetAnswer(client.MethodWakeAllow, &client.WakeRules{})
	const remedy = ": the rule waits for one. To have one: start a program that acpctl setup has connected\n"
	f.WantResult(f.Run("wake", "allow", "desk"), 0, "", "No session is attached now"+remedy)
	f.WantResult(f.Run("wake", "allow", "desk", "--agent", "claude"), 0, "", "No session claude is attached now"+remedy)
}

// A file that waits for the owner's word is of no session.
func TestAFileIsApproved(t *testing.T) {
	f := newDaemon(t)
	file := client.Approval{ID: "f1", Name: "desk", Kind: "file", Message: clitest.SomeID, Text: "build.log, 12 MiB: the log"}
	f.SetAnswer(client.MethodApprovals, client.Approvals{Approvals: []client.Approval{file}})
	if got := f.Run("approvals"); !strings.HasPrefix(got.Out, "f1\tdesk\tfile\t-\t") || !strings.HasSuffix(got.Out, "\tyour word\tbuild.log, 12 MiB: the log\n") {
		t.Errorf("%+v", got)
	}
	f.SetAnswer(client.MethodApprove, &file)
	f.WantResult(f.Run("approvals", "yes", "f1"), 0, "yes: file of desk\n", "")
}

// The owner sees what is to be approved, and until when turns are used up.
func TestTheOwnerSeesTextsAndUsedUpTurns(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodApprovals, client.Approvals{Approvals: []client.Approval{{ID: "1", Name: "desk", Kind: "query", Agent: "claude", Message: clitest.SomeID, Text: "Which\x1b[31m branch?"}}})
	if got := f.Run("approvals"); !strings.HasSuffix(got.Out, "\tyour word\tWhich branch?\n") {
		t.Errorf("%+v", got)
	}
	if got := f.Run("approvals", "--json"); !strings.Contains(got.Out, `"text":"Which\u001b[31m branch?"`) {
		t.Errorf("%+v", got)
	}
	until := client.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	f.SetAnswer(client.MethodAgents, client.Agents{Agents: []client.AgentState{{
		Agent: client.Agent{Name: "claude", MaxConcurrent: 16, Session: &client.SessionInfo{Harness: "claude"}},
		Woken: &client.Woken{By: []client.WokenBy{{Name: "desk", Hour: 10, Day: 10, UsedUpUntil: until}, {Name: "planner", Day: 1}}},
	}}})
	f.SetAnswer(client.MethodPeers, &client.Peers{})
	if got := f.Run("agents"); !strings.HasSuffix(got.Out, "\t0 of 16 under way, turns of desk used up until 2026-01-02T03:04:05Z\n") {
		t.Errorf("%+v", got)
	}
}
