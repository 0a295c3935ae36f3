package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestFullOutput: what cannot be written is no success, and what was done is told.
func TestFullOutput(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	t.Setenv("PATH", user)
	t.Setenv("ACP_HOME", "")
	f := newDaemon(t)
	answer := func(kind string, payload any) any {
		return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: kind, RTTUS: 1, Payload: kinds.EncodePayload(payload)}
	}
	f.SetAnswer(client.MethodQuery, answer(kinds.KindResponse, &kinds.Response{Summary: "main"}))
	f.SetAnswer(client.MethodPing, answer(kinds.KindPong, &kinds.Pong{Status: "idle"}))
	f.SetAnswer(client.MethodDelegate, &client.DelegateAnswer{ID: clitest.SomeID, From: clitest.DeskID, Payload: kinds.EncodePayload(&kinds.Ack{Accepted: true})})
	f.SetAnswer(client.MethodWait, &client.Task{ID: clitest.SomeID, State: client.TaskCompleted, Result: kinds.EncodePayload(&kinds.Result{Status: "completed", Outcome: "done"})})
	f.SetAnswer(client.MethodNotify, &client.Receipt{ID: clitest.SomeID, State: client.Handed})
	f.SetAnswer(client.MethodPeers, client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "desk", State: client.PeerConnected}}})
	f.SetAnswer(client.MethodInbox, client.Inbox{Messages: []client.HeldMessage{{Seq: 1, Envelope: wire.Envelope{ID: clitest.SomeID, From: clitest.DeskID, Kind: kinds.KindNotify}}}})
	f.SetAnswer(client.MethodInvite, &client.Invitation{URI: "acp://x", ID: "0a1b"})
	f.SetAnswer(client.MethodStatus, &client.Status{})
	f.SetAnswer(client.MethodWhoami, &client.Whoami{Name: "laptop"})
	f.SetAnswer(client.MethodTasks, client.Tasks{Tasks: []client.Task{{ID: clitest.SomeID}}})
	f.SetAnswer(client.MethodAgents, client.Agents{Agents: []client.AgentState{{Agent: client.Agent{Name: "claude", Session: &client.SessionInfo{Harness: "claude"}}, Woken: &client.Woken{By: []client.WokenBy{{Name: "desk", Day: 3}}}}}})
	f.SetAnswer(client.MethodMuteAgent, &client.Muted{Name: "claude"})
	f.SetAnswer(client.MethodWakeTest, &client.WakeTested{Agent: "claude", Posted: true})
	f.SetAnswer(client.MethodWakeNotify, &client.OwnerNotify{})
	f.SetAnswer(client.MethodWakeList, &client.WakeRules{Rules: []client.WakeRule{{Name: "desk", Kind: "query"}}})
	f.SetAnswer(client.MethodWakeAllow, &client.WakeRules{Rules: []client.WakeRule{{Name: "desk", Kind: "query"}}})
	f.SetAnswer(client.MethodWakeRevoke, &client.Revoked{Revoked: 1})
	f.SetAnswer(client.MethodWakeAnswers, &client.WakeRules{Answers: []client.WakeAnswersRule{{Agent: "claude"}}})
	f.SetAnswer(client.MethodApprovals, client.Approvals{Approvals: []client.Approval{{ID: "1", Name: "desk", Kind: "query", Message: clitest.SomeID}}})
	f.SetAnswer(client.MethodApprove, &client.Approval{ID: "1", Name: "desk", Kind: "query", Message: clitest.SomeID})
	id := clitest.SomeID.String()
	f.WantDiskFull("the question was answered, and its id is "+id, "query", "desk", "Which branch?")
	f.WantDiskFull("", "ping", "desk", "-c", "2", "-i", "1ms")
	again := "4a2b8c1e-6f0a-4d3c-9e57-010203040506"
	f.WantDiskFull("the task was accepted: see acpctl wait "+again+", or acpctl cancel "+again, "delegate", "desk", "Build", "--id", again)
	f.WantDiskFull("the message is handed, and its id is "+id, "notify", "desk", "built", "true")
	f.WantDiskFull("", "peers")
	f.WantDiskFull("", "setup")
	if err := os.WriteFile(filepath.Join(user, "codex"), nil, 0o700); err != nil { // else setup says that it is not installed
		t.Fatal(err)
	}
	f.WantDiskFull("", "setup", "codex", "--dry-run")
	f.SetHandler(client.MethodShown, func(*jsonrpc.Request) (any, error) {
		t.Error("what was not written counts as shown")
		return struct{}{}, nil
	})
	f.WantDiskFull("", "inbox")
	f.WantDiskFull("the invitation is open: acpctl invite --revoke 0a1b ends it", "invite")
	f.WantDiskFull("", "wait", id)
	f.SetAnswer(client.MethodTask, &client.Task{ID: clitest.SomeID, Direction: client.Given})
	f.SetAnswer(client.MethodAnswer, &client.Answered{ID: clitest.SomeID, Delegation: clitest.SomeID})
	f.WantDiskFull("the question "+id+" is answered", "reply", id, "main")
	f.SetAnswer(client.MethodResult, &client.Receipt{ID: clitest.SomeID, State: client.Handed})
	f.WantDiskFull("the result is handed, and its id is "+id, "reply", id, "--failed", "half")
	f.WantDiskFull("", "status")
	f.SetAnswer(client.MethodTraffic, &client.TrafficAnswer{Next: 1, Lost: 1})
	f.SetAnswer(client.MethodSubscribe, struct{}{})
	f.WantDiskFull("", "tail")
	f.SetAnswer(client.MethodTraffic, &client.TrafficAnswer{Next: 1, Open: []client.TrafficEntry{{ID: clitest.SomeID, Kind: kinds.KindQuery}}})
	f.WantDiskFull("", "waiting")
	f.SetAnswer(client.MethodStatus, &client.Status{Ready: true, Unready: []string{}})
	f.WantDiskFull("", "status", "--check")
	f.SetAnswer(client.MethodDiscover, answer(kinds.KindCapabilities, &kinds.Capabilities{Agents: []string{"reviewer"}}))
	f.WantDiskFull("", "wait", "desk", "--online")
	f.WantDiskFull("", "wait", "desk", "--idle")
	f.WantDiskFull("", "whoami")
	f.WantDiskFull("", "tasks")
	f.WantDiskFull("", "agents")
	f.WantDiskFull("", "agents", "mute", "claude", "0s")
	f.WantDiskFull("", "wake", "list")
	f.WantDiskFull("", "wake", "allow", "desk")
	f.WantDiskFull("", "wake", "revoke", "desk")
	f.WantDiskFull("", "wake", "answers", "on")
	f.WantDiskFull("", "approvals")
	f.WantDiskFull("", "approvals", "yes", "1")
	f.SetAnswer(client.MethodReload, &client.Reloaded{Deferred: []string{"listen"}})
	f.WantDiskFull("config.yaml was taken over", "reload")
	f.SetAnswer(client.MethodPolicy, &client.Policy{Allowed: true, Rule: "no rule"})
	f.WantDiskFull("", "policy", "desk", "query")
	f.SetAnswer(client.MethodBudget, &client.Budget{Rows: []client.BudgetRow{{Name: "inbox"}}, Usage: []client.BudgetUsage{{Row: "inbox", Name: "desk", Held: 1}}})
	f.WantDiskFull("", "usage")
	f.WantDiskFull("", "web", "--no-open")
	f.WantDiskFull("", "config", "check", os.DevNull)
	f.WantDiskFull("", "version")
	f.WantDiskFull("", "ping", "--help")
	f.WantDiskFull("", "help", "ping")
	f.WantDiskFull("", "completion", "bash")
	f.SetAnswer(client.MethodNotify, []client.Receipt{{To: "desk", ID: clitest.SomeID, State: client.Handed}, {To: "office", State: client.Held, ID: clitest.SomeID}})
	f.WantDiskFull("what was sent: desk: handed "+id+", office: held "+id, "notify", "desk,office", "built", "true")
}

// An error that is to be JSON is told in words where it cannot be written.
func TestFullOutputOfAnError(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodQuery, kinds.Errorf(kinds.NotFound, "to: desk: nobody has that name"))
	var stderr bytes.Buffer
	code := f.RunOnFullDisk(&stderr, "--home", f.Home, "query", "desk", "x", "--json")
	if want := "acpctl query: PEER: desk: nobody has that name\nacpctl query: write to standard output: no space left on device\n"; code != frame.FindExitCode(kinds.Errorf(kinds.NotFound, "")) || stderr.String() != want {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
}
