//go:build agents

package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// newMachinesWithCodex returns two machines, and a person at the laptop whose Codex answers the desk.
func newMachinesWithCodex(t *testing.T) (desk, laptop *live.Machine, p *person) {
	t.Helper()
	desk, laptop = live.NewFriends(t)
	allowWake(laptop, desk, false)
	p = newPerson(t, answering("it is forty-two"))
	p.configureCodex(serverCommand(laptop))
	return desk, laptop, p
}

// newPeer returns another machine, whose daemon and that of m trust each other.
func newPeer(t *testing.T, m *live.Machine, name string) *live.Machine {
	t.Helper()
	peer := live.NewMachine(t, name)
	peer.StartDaemon()
	live.Befriend(m, peer)
	return peer
}

// serverCommand is the MCP server that the agent programs on a machine start.
func serverCommand(m *live.Machine) []string {
	m.T.Helper()
	return []string{live.ProgramPath(m.T, "acpctl"), "--home", m.Home, "mcp", "--attach"}
}

// allowWake has the owner of a machine let a peer wake its sessions.
func allowWake(m, peer *live.Machine, unattended bool) {
	m.T.Helper()
	if _, err := m.Client.AllowWake(await.NewContext(m.T), client.WakeAllowParams{Peer: peer.Name, Unattended: unattended}); err != nil {
		m.T.Fatal(err)
	}
}

// allowManyTurns has the owner of a machine let peers wake a session as often as can be.
func allowManyTurns(m *live.Machine) {
	m.T.Helper()
	if err := os.WriteFile(filepath.Join(m.Home, "config.yaml"), []byte("agents: {\"*\": {turns: {hour: 2000}}}\n"), 0o600); err != nil {
		m.T.Fatal(err)
	}
	if _, err := m.Client.Reload(await.NewContext(m.T)); err != nil {
		m.T.Fatal(err)
	}
}

// awaitSession waits until a session is attached that can be woken, or another agent.
func awaitSession(m *live.Machine, name string) {
	m.T.Helper()
	awaitUnwakeable(m, name, "")
}

// awaitUnwakeable waits until an agent is attached that cannot be woken for a reason with that text; ""
// stands for one that can.
func awaitUnwakeable(m *live.Machine, name, why string) {
	m.T.Helper()
	await.Until(m.T, fmt.Sprintf("%s is attached on %s, unwakeable for %q", name, m.Name, why), func() bool {
		a := findAgent(m, name)
		return a != nil && (a.Session == nil && why == "" || a.Session != nil && (a.Session.Unwakeable == "") == (why == "") && strings.Contains(a.Session.Unwakeable, why))
	})
}

// findAgent returns an attached agent, nil if it is not there.
func findAgent(m *live.Machine, name string) *client.AgentState {
	all, err := m.Client.Agents(await.NewContext(m.T))
	if err != nil {
		return nil // the daemon is restarted
	}
	for _, a := range all {
		if a.Name == name {
			return &a
		}
	}
	return nil
}

// messageID is a message that a pointer, or the cover of a message, names.
var messageID = regexp.MustCompile(`id ([0-9a-f]{8}-[0-9a-f-]{27})`)

// reply is a step that answers the latest message of which the model was told.
func reply(text string) step {
	return step{tool: "acp_reply", input: func(q *request) map[string]any {
		id := ""
		for _, i := range q.items {
			if i.role == "call" || i.role == "assistant" {
				continue
			}
			if m := messageID.FindStringSubmatch(i.text); m != nil {
				id = m[1]
			}
		}
		return map[string]any{"id": id, "text": text}
	}}
}

// answering is the rule of a model that answers what wakes it.
func answering(text string) rule {
	return rule{"Call acp_inbox.", []step{call("acp_inbox", map[string]any{}), reply(text)}}
}

// asking is the rule of a model that asks when its user wants it to.
func asking(to, question string) rule {
	return rule{"ask them", []step{call("acp_query", map[string]any{"to": to, "question": question})}}
}

// Claude Code on the desk asks; an idle thread of Codex on the laptop is woken, reads the
// question and answers it, and Claude Code's turn goes on with the answer.
func TestClaudeAsksCodex(t *testing.T) {
	t.Parallel()
	desk, laptop, worker := newMachinesWithCodex(t)
	c := worker.startCodex()
	c.awaitScreen("done")
	awaitSession(laptop, "codex")

	asker := newPerson(t, asking("laptop", "what is the answer?"))
	claude := asker.startClaude(serverCommand(desk))
	began := time.Now()
	claude.say("ask them")
	asker.model.awaitRequest("result", "it is forty-two")
	claude.awaitTurns(2)
	woken := worker.model.awaitRequest("user", "1 message from desk waits")
	t.Logf("from the user's line to the request at the woken model: %s", woken.at.Sub(began).Round(time.Millisecond))
	worker.model.awaitRequest("result", "what is the answer?")
}

// The same the other way round.
func TestCodexAsksClaude(t *testing.T) {
	t.Parallel()
	desk, laptop := live.NewFriends(t)
	allowWake(desk, laptop, false)
	worker := newPerson(t, answering("it is forty-two"))
	claude := worker.startClaude(serverCommand(desk))
	awaitSession(desk, "claude")

	asker := newPerson(t, asking("desk", "what is the answer?"))
	asker.configureCodex(serverCommand(laptop))
	c := asker.startCodex()
	c.awaitScreen("done")
	c.say("ask them")
	asker.model.awaitRequest("result", "it is forty-two")
	claude.awaitTurns(2)
	worker.model.awaitRequest("user", "1 message from laptop waits")
	worker.model.awaitRequest("result", "what is the answer?")
}
