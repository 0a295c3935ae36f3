package message

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func full() Message {
	return Message{
		ID: "msg-20261120130000-planner-00ff", From: "planner", To: []string{"reviewer", "desk"}, Type: "task_request", Priority: "P1",
		Created: "2026-11-20T13:00:00Z", Expires: "2026-11-21T13:00:00Z", Channel: "review", AutonomyHint: "auto_proceed",
		RelatedPacket: "packet-7", RelatedPR: "42", ConversationID: "conv-20261120-planner-000001", ParentID: "msg-1",
		ContextKeys: "one\ntwo\n", Subject: "Yes: \"no\"", Body: "first\n\n  second\n",
	}
}

func TestRender(t *testing.T) {
	const want = `id: msg-20261120130000-planner-00ff
from: planner
to: [reviewer, desk]
type: task_request
priority: P1
created_at_utc: "2026-11-20T13:00:00Z"
expires_at: "2026-11-21T13:00:00Z"
channel: review
autonomy_hint: auto_proceed
related_packet: packet-7
related_pr: 42
conversation_id: conv-20261120-planner-000001
parent_message_id: msg-1
context_keys: |
  one
  two
subject: "Yes: \"no\""
body: |
  first
  ` + `
    second
`
	m := full()
	got, err := m.Render()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("rendered (-want +got):\n%s", d)
	}
	d, err := ParseDocument(got)
	if err != nil {
		t.Fatal(err)
	}
	m.ToList = true
	if d := cmp.Diff(m, d.ToMessage()); d != "" {
		t.Errorf("read back (-want +got):\n%s", d)
	}
	if lines := d.Validate(); lines != nil {
		t.Errorf("valid message has %q", lines)
	}
}
