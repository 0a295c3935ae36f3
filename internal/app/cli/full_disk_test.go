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

// TestFullOutput: what cannot be written is no success, and what was done is told. All verbs print by the same functions:
// here are those that did something, and those that go on.
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
	f.SetAnswer(client.MethodNotify, &client.Receipt{ID: clitest.SomeID, State: client.Handed})
	f.SetAnswer(client.MethodPeers, client.Peers{})
	f.SetAnswer(client.MethodInbox, client.Inbox{Messages: []client.HeldMessage{{Seq: 1, Envelope: wire.Envelope{ID: clitest.SomeID, From: clitest.DeskID, Kind: kinds.KindNotify}}}})
	f.SetAnswer(client.MethodInvite, &client.Invitation{URI: "acp://x", ID: "0a1b"})
	id := clitest.SomeID.String()
	f.WantDiskFull("the question was answered, and its id is "+id, "query", "desk", "Which branch?")
	f.WantDiskFull("", "ping", "desk", "-c", "2", "-i", "1ms")
	again := "4a2b8c1e-6f0a-4d3c-9e57-010203040506"
	f.WantDiskFull("the task was accepted: see acpctl wait "+again+", or acpctl cancel "+again, "delegate", "desk", "Build", "--id", again)
	f.WantDiskFull("the message is handed, and its id is "+id, "notify", "desk", "built", "true")
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
	f.SetAnswer(client.MethodTask, &client.Task{ID: clitest.SomeID, Direction: client.Given})
	f.SetAnswer(client.MethodAnswer, &client.Answered{ID: clitest.SomeID, Delegation: clitest.SomeID})
	f.WantDiskFull("the question "+id+" is answered", "reply", id, "main")
	f.SetAnswer(client.MethodResult, &client.Receipt{ID: clitest.SomeID, State: client.Handed})
	f.WantDiskFull("the result is handed, and its id is "+id, "reply", id, "--failed", "half")
	f.SetAnswer(client.MethodTraffic, &client.TrafficAnswer{Next: 1, Lost: 1})
	f.SetAnswer(client.MethodSubscribe, struct{}{})
	f.WantDiskFull("", "tail")
	f.SetAnswer(client.MethodReload, &client.Reloaded{Deferred: []string{"listen"}})
	f.WantDiskFull("config.yaml was taken over", "reload")
	f.WantDiskFull("", "config", "check", os.DevNull)
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
