package mcp

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// A name that another session has gets a number, and a daemon that is not there is waited for.
func TestAttaching(t *testing.T) {
	d := newFakeDaemon(t)
	d.names["claude"], d.names["claude-2"] = true, true
	p, agent := attachedProgram(t, d, &Server{})
	if agent.params.Name != "claude-3" || agent.params.Session.Harness != "claude" || !slices.Contains(agent.params.Kinds, kinds.KindNotify) {
		t.Errorf("attached as %+v", agent.params)
	}
	if r := p.must("listed", "acp_peers", nil); !strings.HasPrefix(r.said, "You: claude-3 on laptop\n") {
		t.Errorf("%s", r.said)
	}
	p.close()

	d.stop()
	p = startProgram(t, d, &Server{Attach: &client.AttachParams{Name: "planner"}})
	p.fails(kinds.DaemonUnavailable, "acp_inbox", nil)
	d.start()
	p.must("shown", "acp_inbox", nil) // at once, as the agent
	if agent := await.Receive(t, "the session is attached", d.attached); agent.params.Name != "planner" {
		t.Errorf("attached as %+v", agent.params)
	}
	// After a restart it is the same agent.
	d.stop()
	d.start()
	p.must("shown", "acp_inbox", nil)
	if agent := await.Receive(t, "the session is attached again", d.attached); agent.params.Name != "planner" || agent.params.Key == "" {
		t.Errorf("attached again as %+v", agent.params)
	}

	p = startProgram(t, d, &Server{})
	p.fails(kinds.NotAuthorized, "acp_inbox", nil)
	if len(d.attached) > 0 {
		t.Error("a session attaches unasked")
	}
}

// A daemon that takes no more agents serves the session all the same, as far as it needs no agent.
func TestAttachingIsRefused(t *testing.T) {
	d := newFakeDaemon(t)
	for n := range maxSameNames {
		d.names[numberName("claude", n+1)] = true
	}
	p := startProgram(t, d, &Server{Attach: &client.AttachParams{}})
	await.Until(t, "attaching is given up", func() bool {
		err := p.server.agent.whyNotAttached()
		return err != nil && err != error(errAttaching)
	})
	if r := p.must("listed", "acp_peers", nil); !strings.Contains(r.said, "not attached, so others cannot reach it: 16 agents named like claude") {
		t.Errorf("%s", r.said)
	}
	if r := p.fails(kinds.Overloaded, "acp_inbox", nil); !strings.Contains(r.Error.Message, "--name") {
		t.Errorf("%+v", r.Error)
	}
}

// What a program calls its version, and why it cannot be woken, is told as the daemon takes it: it would
// refuse the session for ever.
func TestASessionIsDescribedAsTheDaemonTakesIt(t *testing.T) {
	for text, want := range map[string]client.SessionInfo{
		"1.0 ":                          {Version: "1.0", Unwakeable: "1.0 "},
		" 1.0":                          {Version: "1.0", Unwakeable: " 1.0"},
		"1.0\u00a0b":                    {Version: "1.0b", Unwakeable: "1.0 b"},
		"1\n2\u20293\x1b[1m\u200d4":     {Version: "1 234", Unwakeable: "1 234"},
		strings.Repeat("x", 63) + " y":  {Version: strings.Repeat("x", 63), Unwakeable: strings.Repeat("x", 63) + " y"},
		strings.Repeat("\u00a0", 64):    {Unwakeable: strings.Repeat(" ", 64)},
		strings.Repeat("x", 199) + "é.": {Version: strings.Repeat("x", 64), Unwakeable: strings.Repeat("x", 199)},
	} {
		s := &Server{Log: t.Logf, FindSession: func(context.Context, string, string) (harness.Session, error) { return nil, ownwords.New(text) }}
		want.Harness = "session"
		s.findSession(t.Context(), "", text)
		want.Folder = s.agent.info.Folder
		if got := s.agent.info; got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestAgentNames(t *testing.T) {
	for program, want := range map[string]string{
		"claude-code": "claude", "codex-mcp-client": "codex", "opencode": "opencode", "Cursor VS Code": "cursor-vs-code",
		"": "session", "..": "session", "7zip": "session", strings.Repeat("x", 99): strings.Repeat("x", 28), "deadbeef": "session",
	} {
		if got := makeAgentName(program); got != want {
			t.Errorf("%q: %q, want %q", program, got, want)
		}
	}
}
