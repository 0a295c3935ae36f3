//go:build interop

package interop

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/oacp/message"
)

const handoffBody = `source_agent: planner
target_agent: reviewer
intent: "review"
artifacts_to_review:
  - "PR 42"
definition_of_done:
  - merged
context_bundle:
  files_touched:
    - a.go
  decisions_made:
    - RS256
  blockers_hit:
    - none
  suggested_next_steps:
    - go on
`

const completeBody = `issue: "#38"
pr: 42
branch: main
tests_run: true
next_owner: planner
`

type ran struct {
	Exit   int    `json:"exit"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// plain are bits of texts that the reference writes so that they can be read.
var plain = []string{"a", "word", " ", "  ", ": ", "#", " #", "-", ",", "[", "}", "'", "\"", "\\", "yes", "42", "é", "😀", "\u00a0", "\n", "\n\n", "\n  ", "\n\t"}

// TestDryRun holds Validate and Render against oacp send --dry-run, for all types and
// every option present or not, with values good and bad.
func TestDryRun(t *testing.T) {
	ref, r := start(t, "pinned"), random(t)
	sent, refused := 0, 0
	for i := range *rounds / 2 {
		m, args := compose(r, message.ListMessageTypes()[i%len(message.ListMessageTypes())])
		var answer ran
		ref.ask(t, map[string]any{"op": "send", "args": args}, &answer)
		if answer.Exit != 0 {
			refused++
			m.ID, m.Created = "m-1", "2026-11-20T13:00:00Z"
			if m.Validate() == nil || answer.Exit != 1 {
				t.Errorf("%q: the reference ends with %d: %s, and we find nothing", args, answer.Exit, answer.Stderr)
			}
			continue
		}
		sent++
		d, err := message.ParseDocument([]byte(answer.Stdout))
		if err != nil {
			t.Errorf("%q: %v", answer.Stdout, err)
			continue
		}
		m.ID, m.Created = d.ToMessage().ID, d.ToMessage().Created
		if lines := m.Validate(); lines != nil {
			t.Errorf("%q\nthe reference sends it, we say %q", args, lines)
		}
		got, err := m.Render()
		if err != nil {
			t.Errorf("%q: %v", args, err)
		} else if diff := cmp.Diff(answer.Stdout, string(got)); diff != "" {
			t.Errorf("%q (-reference +ours):\n%s", args, diff)
		}
	}
	if sent < *rounds/10 || refused < *rounds/10 {
		t.Errorf("%d sent, %d refused: too few to mean anything", sent, refused)
	}
}

// compose draws a message of a type, and the arguments with which the reference
// sends the same. Every fifth value is bad.
func compose(r *rand.Rand, typ string) (message.Message, []string) {
	m := message.Message{From: "planner", To: []string{"reviewer"}, Type: typ, Priority: "P2"}
	args := []string{"project", "--from=planner", "--type=" + typ, "--dry-run", "--oacp-dir=/nonexistent"}
	option := func(field *string, name string, good, bad string) {
		if r.IntN(2) == 0 {
			return
		}
		if *field = good; r.IntN(12) == 0 {
			*field = bad
		}
		args = append(args, name+"="+*field)
	}
	words := func() string {
		return strings.TrimSpace("w" + text(r, plain, 6))
	}
	if r.IntN(3) == 0 {
		m.To = [][]string{{"reviewer", "desk"}, {"planner"}, {"reviewer", "planner"}, {"a b"}, {"desk", "_x"}}[r.IntN(5)]
	}
	args = append(args, "--to="+strings.Join(m.To, ","))
	m.Subject = words()
	args = append(args, "--subject="+m.Subject)
	switch m.Body = words(); typ {
	case "handoff":
		m.Body = handoffBody
	case "handoff_complete":
		m.Body = completeBody
	}
	if r.IntN(10) == 0 {
		m.Body = []string{"", "\n\n", "   ", strings.Repeat("x", 20001), "free text"}[r.IntN(5)]
	}
	args = append(args, "--body="+m.Body)
	if r.IntN(2) == 0 {
		m.Priority = message.ListPriorities()[r.IntN(4)]
		args = append(args, "--priority="+m.Priority)
	}
	option(&m.RelatedPR, "--related-pr", "42", "#42")
	option(&m.RelatedPacket, "--related-packet", words(), strings.Repeat("p", 300))
	option(&m.ConversationID, "--conversation-id", "conv-20261120-planner-1", "thread-1")
	option(&m.ParentID, "--parent-message-id", words(), strings.Repeat("p", 201))
	option(&m.ContextKeys, "--context-keys", words(), "one\ntwo\n\n")
	option(&m.Channel, "--channel", "review", "a b")
	option(&m.AutonomyHint, "--autonomy-hint", "auto_proceed", "always")
	return m, args
}

// TestDurations holds ExpiresAfter against oacp send --expires.
func TestDurations(t *testing.T) {
	ref := start(t, "pinned")
	for _, duration := range []string{
		"1h", "2d", "30m", "0m", "1H", " 90 M ", "1\td", "1\u00a0h", "1\x1ch", "007h", "2900000d", "h", "1", "1w", "-1h", "1.5h", "1h30m", "1h\n", "\n1h", "+1h", "1_0h", "it's",
	} {
		var answer ran
		asked := time.Now()
		ref.ask(t, map[string]any{"op": "send", "args": []string{
			"project", "--from=planner", "--to=reviewer", "--type=question", "--subject=s", "--body=b", "--dry-run", "--oacp-dir=/nonexistent", "--expires=" + duration,
		}}, &answer)
		now := time.Now()
		got, err := message.ParseExpiry(duration, now)
		if answer.Exit != 0 {
			if err == nil || answer.Exit != 2 {
				t.Errorf("%q: the reference says %s(%d), we say %q, %v", duration, answer.Stderr, answer.Exit, got, err)
			}
			continue
		}
		d, parseErr := message.ParseDocument([]byte(answer.Stdout))
		if err != nil || parseErr != nil {
			t.Errorf("%q: %v, %v", duration, err, parseErr)
			continue
		}
		want, _ := time.Parse(time.RFC3339, d.ToMessage().Expires)
		if at, _ := time.Parse(time.RFC3339, got); at.Sub(want) < -time.Second || at.Sub(want) > now.Sub(asked)+time.Second { // both are whole seconds
			t.Errorf("%q: expires at %s, the reference says %s", duration, got, d.ToMessage().Expires)
		}
	}
}

// TestNewest holds what is valid and what we write against the newest release.
func TestNewest(t *testing.T) {
	ref, r := start(t, "newest"), random(t)
	for _, v := range readCorpus(t) {
		var now vector
		ref.ask(t, map[string]any{"op": "validate", "data": v.data()}, &now)
		if v.Exit == 0 && now.Exit != 0 {
			t.Errorf("%s: was valid, and is not any more", v.Name)
		}
	}
	for i := range *rounds / 10 {
		m, _ := compose(r, message.ListMessageTypes()[i%len(message.ListMessageTypes())])
		m.ID, m.Created = message.NewMessageID(time.Now(), m.From), message.FormatTimestamp(time.Now())
		if m.Validate() != nil {
			continue
		}
		data, err := m.Render()
		if err != nil {
			t.Fatal(err)
		}
		var now vector
		if ref.ask(t, map[string]any{"op": "validate", "data": data}, &now); now.Exit != 0 {
			t.Errorf("%q is not valid any more", data)
		}
	}
}
