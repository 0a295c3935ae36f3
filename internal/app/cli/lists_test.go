package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Every list has its head on a terminal alone. A script gets a line for each row, and nothing at all,
// on neither stream, for an empty list.
func TestListsForScriptsHaveNoHeads(t *testing.T) {
	f := newDaemon(t)
	notice := wire.Envelope{V: 1, ID: clitest.SomeID, From: clitest.DeskID, To: clitest.MyID, Kind: "notify", Payload: kinds.EncodePayload(&kinds.Notify{Topic: "t", Data: []byte("1")})}
	f.SetAnswer(client.MethodShown, struct{}{})
	for _, list := range []struct {
		method, verb, head string
		one, none          any
	}{
		{client.MethodPeers, "peers", "NAME ", &client.Peers{Peers: []client.Peer{{ID: clitest.DeskID, Name: "desk", State: client.PeerTrusted}}}, &client.Peers{}},
		{client.MethodTasks, "tasks", "ID ", &client.Tasks{Tasks: []client.Task{{ID: clitest.SomeID, Peer: "desk", Direction: client.Given}}}, &client.Tasks{}},
		{client.MethodInbox, "inbox", "NUMBER ", &client.Inbox{Messages: []client.HeldMessage{{Seq: 1, Envelope: notice}}}, &client.Inbox{}},
		{client.MethodAgents, "agents", "NAME ", &client.Agents{Agents: []client.AgentState{{Agent: client.Agent{Name: "claude"}}}}, &client.Agents{}},
		{client.MethodWakeList, "wake list", "PEER ", &client.WakeRules{Rules: []client.WakeRule{{Name: "desk", Kind: "query"}}}, &client.WakeRules{}},
		{client.MethodApprovals, "approvals", "ID ", &client.Approvals{Approvals: []client.Approval{{ID: "3", Name: "desk", Message: clitest.SomeID}}}, &client.Approvals{}},
		{client.MethodInvitations, "invite --list", "ID ", &client.Invitations{Invitations: []client.OpenInvitation{{ID: "1"}}}, &client.Invitations{}},
	} {
		verb := strings.Fields(list.verb)
		f.SetAnswer(client.MethodPeers, &client.Peers{})
		f.SetAnswer(list.method, list.one)
		if got := f.Run(verb...); got.Code != 0 || got.Err != "" || strings.Count(got.Out, "\n") != 1 || !strings.Contains(got.Out, "\t") {
			t.Errorf("%s, a script: %+v", list.verb, got)
		}
		if got := f.RunAtTerminal(ui.Terminal{OutTTY: true}, "", verb...); got.Code != 0 || strings.Count(got.Out, "\n") != 2 || !strings.HasPrefix(got.Out, list.head) {
			t.Errorf("%s, a terminal: %+v", list.verb, got)
		}
		f.SetAnswer(list.method, list.none)
		f.WantResult(f.Run(verb...), 0, "", "")
		if got := f.RunInteractive("", verb...); got.Code != 0 || got.Out != "" || !strings.HasPrefix(got.Err, "none\n") {
			t.Errorf("%s, an empty list on a terminal: %+v", list.verb, got)
		}
	}
	if got := f.RunInteractive("", "agents"); !strings.Contains(got.Err, "none\nNo agent is attached here. acpctl setup connects Claude Code, Codex or OpenCode; ") {
		t.Errorf("agents without one: %+v", got)
	}
}

// The first page that shows agents has the words that it prints, and wake allow says whom it wakes.
func TestDocumentsHaveTheWordsOfTheLists(t *testing.T) {
	page, err := os.ReadFile("../../../docs/howto/ask-a-colleague.md")
	for _, answers := range []string{kinds.AnswersNow, kinds.AnswersWakes, kinds.AnswersTurn} {
		if row := "| `" + formatAnswers(answers) + "` | "; err != nil || !strings.Contains(string(page), row) {
			t.Errorf("docs/howto/ask-a-colleague.md has no row %q: %v", row, err)
		}
	}
	help := strings.Join(strings.Fields(newDaemon(t).Run("wake", "allow", "--help").Out), " ")
	if !strings.Contains(help, "A Claude Code in its default mode, auto, is woken without it, ") {
		t.Error(help)
	}
}
