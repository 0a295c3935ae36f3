//go:build agents

package agents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// After /clear a question that names no agent goes to the conversation that the terminal shows. When the
// terminal is closed, its sessions say so.
func TestCodexIsClearedAndClosed(t *testing.T) {
	t.Parallel()
	desk, laptop, p := newMachinesWithCodex(t)
	c := p.startCodex()
	awaitSession(laptop, "codex")
	c.say("/clear")
	awaitSession(laptop, "codex-2")
	if end := await.Receive(t, "the answer", query(desk, "laptop").answer); !strings.Contains(end.text, "forty-two") {
		t.Errorf("asked after /clear: %+v", end)
	}
	c.awaitScreen("1 message from desk waits")
	c.Process.Stop()
	awaitUnwakeable(laptop, "codex-2", "its terminal is closed")
}

// A question in whose turn Codex asks its user in vain: the owner sees that, the sender hears it at the
// deadline, and the turn is over.
func TestCodexAsksInVain(t *testing.T) {
	t.Parallel()
	desk, laptop, p := newMachinesWithCodex(t)
	made := filepath.Join(p.home, "made")
	p.model.on("waits, id", call("exec_command", map[string]any{"cmd": "touch " + made, "sandbox_permissions": "require_escalated", "justification": "to have it"}))
	c := p.startCodex()
	awaitSession(laptop, "codex")
	asked := make(chan error, 1)
	go func() {
		_, err := desk.Client.Query(await.NewContext(t), client.QueryParams{To: "laptop", Payload: kinds.EncodePayload(&kinds.Query{Question: "?", DeadlineMS: 10_000})})
		asked <- err
	}()
	c.awaitScreen("to have it")
	await.Until(t, "the owner sees that Codex asks", func() bool { return findAgent(laptop, "codex").Session.Asks == "Codex" })
	if err := await.Receive(t, "the word of the laptop", asked); err == nil || !strings.Contains(err.Error(), "its owner was asked by Codex, and has not answered") {
		t.Errorf("the sender hears %v", err)
	}
	await.Until(t, "the turn is over", func() bool { return findAgent(laptop, "codex").Session.Asks == "" })
	if _, err := os.Stat(made); err == nil {
		t.Error("it is made")
	}
}

// Codex is started again at once in the directory, while its first thread is still loaded: each session
// is known by its own thread before any call of a tool.
func TestCodexIsStartedAgain(t *testing.T) {
	t.Parallel()
	desk, laptop, p := newMachinesWithCodex(t)
	p.startCodex()
	awaitSession(laptop, "codex")
	p.openCodex().say("good day")
	awaitSession(laptop, "codex-2")
	for _, to := range []string{"laptop/codex", "laptop/codex-2"} {
		if end := await.Receive(t, "the answer", query(desk, to).answer); !strings.Contains(end.text, "forty-two") {
			t.Errorf("%s: %+v", to, end)
		}
	}
}
