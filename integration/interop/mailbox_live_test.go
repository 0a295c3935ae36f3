//go:build interop

package interop

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/oacp/message"
)

// TestMailboxRecord holds what was recorded of the reference's commands against the
// reference itself.
func TestMailboxRecord(t *testing.T) {
	s := readVectors[session](t, mailboxFile)
	same := func(args []string) []string { return args }
	s.play(t, []string{filepath.Join(venv(t, "pinned"), "bin", "oacp")}, same, func(i int, was, is step) {
		if diff := cmp.Diff(was, is); diff != "" && !*record {
			t.Errorf("the reference does otherwise: %q (-recorded +now):\n%s", was.Args, diff)
		}
		s.Steps[i] = is
	})
	if !*record {
		return
	}
	text, err := json.Marshal(s, json.Deterministic(true), jsontext.WithIndent("\t"))
	if err == nil {
		err = os.WriteFile(mailboxFile, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// both are the two tools on one home.
type both struct {
	t    *testing.T
	home string
}

func newBoth(t *testing.T) *both {
	b := &both{t, filepath.Join(t.TempDir(), "home")}
	b.must("ours", "init", "demo", "--agents", "planner,reviewer,tester")
	return b
}

// run runs a command of ours or of theirs.
func (b *both) run(tool string, args ...string) step {
	b.t.Helper()
	command := []string{live.ProgramPath(b.t, "acpctl"), "oacp"}
	if tool == "theirs" {
		command = []string{filepath.Join(venv(b.t, "pinned"), "bin", "oacp")}
	}
	cmd := exec.Command(command[0], append(command[1:], args...)...)
	cmd.Env = append(os.Environ(), "OACP_HOME="+b.home)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	return step{Exit: cmd.ProcessState.ExitCode(), Stdout: split(out.String()), Stderr: split(errs.String())}
}

func (b *both) must(tool string, args ...string) []string {
	b.t.Helper()
	s := b.run(tool, args...)
	if s.Exit != 0 {
		b.t.Fatalf("%s %q ends with %d: %q", tool, args, s.Exit, s.Stderr)
	}
	return s.Stdout
}

// agree wants the same of both for a command that changes nothing. What tells how old something is may change
// between the two: a line of ours may be as theirs is after it.
func (b *both) agree(theirs []string, more ...string) {
	b.t.Helper()
	before, ours := b.run("theirs", theirs...), b.run("ours", append(theirs, more...)...)
	if cmp.Equal(before, ours) {
		return
	}
	for i, line := range b.run("theirs", theirs...).Stdout {
		if i < len(before.Stdout) && i < len(ours.Stdout) && ours.Stdout[i] == line {
			before.Stdout[i] = line
		}
	}
	if diff := cmp.Diff(before, ours); diff != "" {
		b.t.Errorf("%q (-theirs +ours):\n%s", theirs, diff)
	}
}

// sent is the part of send's report that both have.
type sent struct {
	ID     string   `json:"message_id"`
	To     any      `json:"to"`
	Inbox  string   `json:"inbox_path"`
	Boxes  []string `json:"inbox_paths"`
	Outbox string   `json:"outbox_path"`
	Thread string   `json:"conversation_id"`
}

func (b *both) send(tool string, args ...string) sent {
	b.t.Helper()
	var s sent
	out := b.must(tool, append([]string{"send", "demo", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(strings.Join(out, "\n")), &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *both) parse(path string) message.Message {
	b.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	d, err := message.ParseDocument(data)
	if err != nil {
		b.t.Fatal(err)
	}
	return d.ToMessage()
}

func body(typ string) string {
	switch typ {
	case "handoff":
		return handoffBody
	case "handoff_complete":
		return completeBody
	}
	return "one\n\n  two: é\n"
}

// TestConversation: both tools continue each other's threads and broadcasts.
func TestConversation(t *testing.T) {
	b := newBoth(t)
	for _, c := range [][2]string{{"ours", "theirs"}, {"theirs", "ours"}} {
		first := b.send(c[0], "--from", "planner", "--to", "reviewer,tester", "--type", "brainstorm_request", "--subject", "Ideas?", "--body", "x",
			"--conversation-id", "conv-20260101-planner-7")
		if len(first.Boxes) != 2 || filepath.Base(first.Boxes[0]) != filepath.Base(first.Outbox) {
			t.Fatalf("%s: %+v", c[0], first)
		}
		for _, path := range first.Boxes {
			b.agree([]string{"validate", path})
		}
		answer := b.send(c[1], "--from", "reviewer", "--to", "planner", "--type", "brainstorm_followup", "--subject", "One", "--body", "x", "--in-reply-to", first.ID)
		if m := b.parse(answer.Inbox); m.ConversationID != "conv-20260101-planner-7" || m.ParentID != first.ID {
			t.Errorf("%s answers %s: %+v", c[1], c[0], m)
		}
	}
	first := b.send("theirs", "--from", "planner", "--to", "reviewer", "--type", "question", "--subject", "Which?", "--body", "x", "--priority", "P1")
	out := b.must("ours", "reply", "demo", first.ID, "--from", "reviewer", "--body", "main")
	m := b.parse(strings.TrimPrefix(out[1], "  inbox:  "))
	if m.To[0] != "planner" || m.Type != "notification" || m.Subject != "Re: Which?" || m.Priority != "P1" || m.ParentID != first.ID || m.ConversationID == "" {
		t.Errorf("the reply is %+v", m)
	}
	b.must("theirs", "validate", strings.TrimPrefix(out[2], "  outbox: "))
	b.agree([]string{"inbox", "demo", "--all"}, "--order", "name")
}

// TestSharedCursor: the tools take turns with one cursor, and each event is told once.
func TestSharedCursor(t *testing.T) {
	b := newBoth(t)
	cursor := filepath.Join(b.home, "projects/demo/state/watch/reviewer.json")
	look := func(tool string) []string {
		return b.must(tool, "watch", "--agent", "reviewer", "--project", "demo", "--show-archived", "--json")
	}
	look("ours")
	for i, turn := range [][2]string{{"ours", "theirs"}, {"theirs", "ours"}, {"ours", "ours"}, {"theirs", "theirs"}} {
		s := b.send(turn[0], "--from", "planner", "--to", "reviewer", "--type", "question", "--subject", fmt.Sprint("é ", i), "--body", "x")
		if told := look(turn[1]); len(told) != 1 || !strings.Contains(told[0], `"event": "new_message", "file": "`+filepath.Base(s.Inbox)) {
			t.Errorf("%s told %q", turn[1], told)
		}
		if told := look(turn[0]); len(told) != 0 {
			t.Errorf("%s told again %q", turn[0], told)
		}
		before, err := os.ReadFile(cursor)
		if err != nil {
			t.Fatal(err)
		}
		look("theirs") // writes it anew
		if after, err := os.ReadFile(cursor); err != nil || string(after) != string(before) {
			t.Errorf("the cursor of %s is\n%sand of theirs\n%s", turn[0], before, after)
		}
		b.must("ours", "done", "demo", "reviewer", filepath.Base(s.Inbox))
		if told := look(turn[1]); len(told) != 1 || !strings.Contains(told[0], `"message_archived"`) {
			t.Errorf("%s told %q", turn[1], told)
		}
	}
	b.agree([]string{"inbox", "demo", "--agent", "reviewer"}, "--order", "name")
}

// TestInitTree: a project of ours is one of theirs.
func TestInitTree(t *testing.T) {
	b := newBoth(t)
	b.must("theirs", "init", "twin", "--agents", "planner,reviewer,tester")
	tree := func(project string) (names []string) {
		root := filepath.Join(b.home, "projects", project)
		if err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			name, _ := filepath.Rel(root, path)
			names = append(names, fmt.Sprint(name, " ", e.IsDir()))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return names
	}
	if diff := cmp.Diff(tree("twin"), tree("demo")); diff != "" {
		t.Errorf("(-theirs +ours):\n%s", diff)
	}
	for _, project := range []string{"demo", "twin"} {
		b.must("theirs", "doctor", "--project", project)
	}
	b.must("ours", "init", "twin", "--agents", "newcomer")
	b.must("theirs", "send", "twin", "--from", "newcomer", "--to", "planner", "--type", "notification", "--subject", "S", "--body", "x")
}
