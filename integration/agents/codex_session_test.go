//go:build agents

package agents

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

// A Codex that was just started says that it cannot be woken, and what to do. A question that names no
// agent is refused at once; one that names it waits, and is answered when the first turn has ended.
func TestQuestionForAFreshCodex(t *testing.T) {
	t.Parallel()
	desk, laptop, p := newMachinesWithCodex(t)
	c := p.openCodex()
	awaitUnwakeable(laptop, "codex", "its conversation has had no turn yet: say something to it once")
	end := receive(t, "the refusal", query(desk, "laptop").answer)
	if e, ok := errors.AsType[*kinds.Error](end.err); !ok || e.Code != kinds.NoAgent {
		t.Errorf("a question that names no agent: %+v", end)
	}
	waits, notice := query(desk, "laptop/codex"), notify(desk, "laptop/codex")
	notice.expectReceipt(t, client.Held)
	until(t, "the question waits", func() bool { return findAgent(laptop, "codex").Woken.Waiting == 1 })
	c.say("hello")
	if end := receive(t, "the answer", waits.answer); !strings.Contains(end.text, "forty-two") {
		t.Errorf("the question that waited: %+v", end)
	}
	p.model.awaitRequest("result", notice.id.String()) // acp_inbox shows both to their ends, so the notice wakes nobody
	awaitSession(laptop, "codex")
}

// After /clear the session that the terminal shows is asked, and the one that it showed before is no
// agent any more. When the terminal is closed there is none, and the next one has the first's name.
func TestCodexIsClearedAndClosed(t *testing.T) {
	t.Parallel()
	desk, laptop, p := newMachinesWithCodex(t)
	c := p.startCodex()
	awaitSession(laptop, "codex")
	before := findAgent(laptop, "codex").Since
	c.say("/clear")
	list := func() (all []client.AgentState) {
		all, err := laptop.Client.Agents(await.NewContext(t))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	until(t, "one session is left, another one", func() bool {
		all := list()
		return len(all) == 1 && all[0].Since != before
	})
	c.say("again")
	name := list()[0].Name
	awaitSession(laptop, name)
	if end := receive(t, "the answer", query(desk, "laptop").answer); !strings.Contains(end.text, "forty-two") {
		t.Errorf("asked after /clear: %+v", end)
	}
	c.awaitScreen("1 message from desk waits")

	c.Process.Stop()
	until(t, "no session is left", func() bool { return len(list()) == 0 })
	if countServers(t, laptop) == 0 {
		t.Error("that is when Codex has closed the thread, and not before")
	}
	p.openCodex()
	awaitUnwakeable(laptop, "codex", "has had no turn yet")
}

// countServers returns how many acpctl mcp run for a machine. Codex ends that of a thread when it closes the thread.
func countServers(t *testing.T, m *live.Machine) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join(serverCommand(m), "\x00")
	for _, path := range all {
		if line, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(line), want) {
			n++
		}
	}
	return n
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
		if end := receive(t, "the answer", query(desk, to).answer); !strings.Contains(end.text, "forty-two") {
			t.Errorf("%s: %+v", to, end)
		}
	}
}
