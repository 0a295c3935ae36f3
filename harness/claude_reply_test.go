package harness

import (
	"testing"

	"github.com/acpd/acpd/integration/await"
)

// What the model sends by Claude Code's own means is refused, so that it answers by acp_reply.
func TestClaudeAnswersByItself(t *testing.T) {
	f := newFakeClaude(t)
	from := f.find(f.environment(), newFamily()).(*claude).from
	f.send(from, `{"msgV":1,"msg_id":"a1","type":"user","message":{"role":"user","content":"cut \ud83d"},"priority":"next","from":"uds:/x/200.sock"}`+"\n")
	await.Until(t, "a refusal", func() bool { return len(f.list(string(actionStatus))) > 0 })
	if got := f.list(string(actionStatus))[0]; got.Of != "a1" || got.Status != statusRefused || got.From != from || got.Reason != "answers go through acp_reply" {
		t.Errorf("refusal %+v", got)
	}
}
