//go:build faults

package faults

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/integration/live"
)

// TestMailboxWritesStopAnywhere: acpctl oacp is killed at any step of what it writes. A
// fresh process works with what is there, what was said to be sent is where it belongs,
// of what was not there is all or nothing, and what a kill leaves is no mail.
func TestMailboxWritesStopAnywhere(t *testing.T) {
	t.Parallel()
	send := []string{"send", "demo", "--from", "planner", "--to", "reviewer,tester", "--type", "question", "--subject", "last", "--body", "b"}
	verbs := []struct {
		what string
		args []string // FILE is the first mail's
	}{
		{"init", []string{"init", "other", "--agents", "planner,reviewer"}},
		{"send", send},
		{"send and create", append(slices.Clone(send), "--create")},
		{"reply", []string{"reply", "demo", "FILE", "--from", "reviewer", "--subject", "last", "--body", "b"}},
		{"done", []string{"done", "demo", "reviewer", "FILE"}},
		{"done and delete", []string{"done", "demo", "reviewer", "FILE", "--delete"}},
	}
	for _, v := range verbs {
		t.Run(v.what, func(t *testing.T) {
			run := func(limit int64) int64 {
				b := newBoxes(t)
				if v.what == "send and create" {
					b.remove("agents/tester")
				}
				args := append([]string{live.ProgramPath(t, "acpctl"), "--home", b.Home, "oacp"}, v.args...)
				for i, arg := range args {
					args[i] = strings.ReplaceAll(arg, "FILE", b.file)
				}
				p, err := runStoppable(b.Home, live.NewEnviron(t, b.Home), limit, true, args...)
				if err != nil {
					t.Fatal(err)
				}
				<-p.ended
				if p.killed != (limit > 0) || limit == 0 && p.code != 0 {
					t.Fatalf("of step %d: killed is %t, exit code %d: %s", limit, p.killed, p.code, p.said.String())
				}
				b.check(v.what, limit)
				return p.taken.Load()
			}
			steps := run(0)
			at := samples(steps)
			t.Logf("%d steps, killed at %d of them", steps, len(at))
			for _, n := range at {
				run(n)
			}
		})
	}
}

// boxes are mailboxes of a project without a daemon, in which planner has sent reviewer
// a mail.
type boxes struct {
	*live.Machine
	file string
}

func newBoxes(t *testing.T) *boxes {
	b := &boxes{Machine: live.NewMachine(t, "desk")}
	b.MustOutput("oacp", "init", "demo", "--agents", "planner,reviewer,tester")
	b.MustOutput("oacp", "send", "demo", "--from", "planner", "--to", "reviewer", "--type", "question", "--subject", "first", "--body", "b")
	b.file = files(t, b.path("agents/planner/outbox"))[1] // .gitkeep comes first
	return b
}

func (b *boxes) path(name string) string { return filepath.Join(b.Home, "oacp/projects/demo", name) }

func (b *boxes) remove(name string) {
	if err := os.RemoveAll(b.path(name)); err != nil {
		b.T.Fatal(err)
	}
}

// check looks at what a verb has left that was killed before that step, or at 0 was not.
func (b *boxes) check(what string, limit int64) {
	t := b.T
	t.Helper()
	inbox, archive := b.subjects("agents/reviewer/inbox"), b.subjects("agents/reviewer/inbox/archive")
	outbox := b.subjects("agents/planner/outbox")
	is := func(fact string, now, want int, may ...int) {
		t.Helper()
		if limit > 0 && slices.Contains(may, now) {
			return
		}
		if now != want {
			t.Errorf("%s, after step %d: %s %d times, want %d", what, limit-1, fact, now, want)
		}
	}
	is("the first mail is in the outbox", outbox["first"], 1)
	switch what {
	case "done":
		is("it is in the inbox", inbox["first"], 0, 1)
		is("it is in the inbox or the archive", inbox["first"]+archive["first"], 1)
	case "done and delete":
		is("it is in the inbox", inbox["first"], 0, 1)
	default:
		is("it is in the inbox", inbox["first"], 1)
	}
	switch what {
	case "send", "send and create":
		is("the last mail is in the outbox", outbox["last"], 1, 0)
		is("it is in the inbox of reviewer", inbox["last"], 1, 0)
		is("it is in the inbox of tester", b.subjects("agents/tester/inbox")["last"], 1, 0)
	case "reply":
		is("the answer is in the inbox", b.subjects("agents/planner/inbox")["last"], 1, 0)
		is("the answer is in the outbox", b.subjects("agents/reviewer/outbox")["last"], 1, 0)
	}
	// The verb again, and others: nothing that is left is in their way.
	b.MustOutput("oacp", "init", "other", "--agents", "planner,reviewer")
	for _, project := range []string{"demo", "other"} {
		b.MustOutput("oacp", "init", project, "--agents", "planner,reviewer,tester")
		b.MustOutput("oacp", "send", project, "--from", "planner", "--to", "reviewer,tester", "--type", "question", "--subject", "after", "--body", "b")
	}
	if n := b.subjects("agents/tester/inbox")["after"]; n != 1 {
		t.Errorf("%s, after step %d: a mail that is sent then is there %d times", what, limit-1, n)
	}
	if what == "init" {
		whole := b.texts("demo")
		if got := b.texts("other"); !cmp.Equal(got, whole) {
			t.Errorf("after step %d of init: %s", limit-1, cmp.Diff(whole, got))
		}
	}
}

// texts are the files of a project that init makes, but for workspace.json, which names it.
func (b *boxes) texts(project string) map[string]string {
	b.T.Helper()
	dir, texts := filepath.Join(b.Home, "oacp/projects", project), make(map[string]string)
	for _, f := range files(b.T, dir) {
		name := filepath.Base(f)
		if name == "workspace.json" || strings.HasSuffix(name, ".yaml") && name != "config.yaml" || strings.Contains(name, ".tmp-acpctl-") {
			continue // mail, and what a kill leaves
		}
		text, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			b.T.Fatal(err)
		}
		texts[f] = string(text)
	}
	return texts
}

// subjects are those of the mails that acpctl lists, or in the archive and the outbox of
// the files that are mail by their names; each must be whole.
func (b *boxes) subjects(box string) map[string]int {
	b.T.Helper()
	found := make(map[string]int)
	if agent := filepath.Base(filepath.Dir(box)); filepath.Base(box) == "inbox" {
		if _, err := os.Stat(b.path(box)); err != nil {
			return found
		}
		var list struct {
			Agents []struct {
				Messages []struct {
					Subject string `json:"subject"`
				} `json:"messages"`
			} `json:"agents"`
		}
		if err := json.Unmarshal([]byte(b.MustOutput("oacp", "inbox", "demo", "--agent", agent, "--json")), &list); err != nil {
			b.T.Fatal(err)
		}
		for _, m := range list.Agents[0].Messages {
			found[m.Subject]++
		}
		return found
	}
	entries, _ := os.ReadDir(b.path(box))
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".yaml") && name[0] != '.' {
			b.MustOutput("oacp", "validate", b.path(filepath.Join(box, name)))
			data, err := os.ReadFile(b.path(filepath.Join(box, name)))
			if err != nil {
				b.T.Fatal(err)
			}
			found[strings.Trim(between(string(data), "\nsubject: ", "\n"), `"`)]++
		}
	}
	return found
}
