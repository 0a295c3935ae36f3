package message

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStrict(t *testing.T) {
	for _, c := range []struct {
		typ, body string
		want      []string
	}{
		{"question", "anything", nil},
		{"handoff", "anything", nil},
		{"follow_up", "source_type: review\nsource_ref: 'PR #42'\nrisk_tier: P3\nsummary: s\nnext_action: n\nowner: planner\ndue_hint: soon\n", nil},
		{"follow_up", "source_type: idea\nrisk_tier: P1\nsummary: ''\nnext_action: [n]\nowner: planner\n", []string{
			"follow_up body: field 'source_type' must be one of: review, task, deploy, incident, other",
			"follow_up body: missing required field 'source_ref'",
			"follow_up body: field 'risk_tier' must be one of: P2, P3",
			"follow_up body: missing required field 'summary'",
			"follow_up body: field 'next_action' must be text",
		}},
		{"follow_up", "later", []string{"follow_up body: not a mapping: write lines like 'source_type: …'"}},
		{"follow_up", "", []string{"follow_up body: not a mapping: write lines like 'source_type: …'"}},
		{"follow_up", "a: [", []string{"follow_up body: not a mapping: write lines like 'source_type: …'"}},
		{"review_request", "pr: '#55'\nbranch: main\ndiff_summary: |\n  one\n  two\nmax_turns_reviewer: 3\n", nil},
		{"review_request", "pr: 55\nmax_turns_reviewer: some\nmax_runtime_s_reviewer: -1\n", []string{
			"review_request body: missing required field 'branch'",
			"review_request body: missing required field 'diff_summary'",
			"review_request body: field 'max_turns_reviewer' must be a whole number",
			"review_request body: field 'max_runtime_s_reviewer' must be a whole number",
		}},
		{"review_feedback", "findings_packet: a.yaml\nround: 1\nblocking_count: 0\n", nil},
		{"review_feedback", "findings_packet: a.yaml\nround: first\n", []string{
			"review_feedback body: field 'round' must be a whole number",
			"review_feedback body: missing required field 'blocking_count'",
		}},
		{"review_addressed", "commit_sha: a1\nchanges_summary: c\nround: 1\ntouched_files: [a.go]\naddressed_finding_ids:\n- f-1\n", nil},
		{"review_addressed", "commit_sha: a1\nchanges_summary: c\nround: 1\ntouched_files: a.go\naddressed_finding_ids: []\n", []string{
			"review_addressed body: field 'touched_files' must be a list",
			"review_addressed body: missing required field 'addressed_finding_ids'",
		}},
		{"review_lgtm", "quality_gate_result: pass\nmerge_ready: true\nnits:\n  - n\n", nil},
		{"review_lgtm", "quality_gate_result: ok\nmerge_ready: yes\nnits: n\n", []string{
			"review_lgtm body: field 'quality_gate_result' must be one of: pass, fail",
			"review_lgtm body: field 'merge_ready' must be one of: true, false",
			"review_lgtm body: field 'nits' must be a list",
		}},
	} {
		if diff := cmp.Diff(c.want, Message{Type: c.typ, Body: c.body}.ValidateBody()); diff != "" {
			t.Errorf("%s %q (-want +got):\n%s", c.typ, c.body, diff)
		}
	}
}
