package mailbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// diagnosis is what the doctor finds worse than fine, by category.
func diagnosis(h Home, project string, fix bool) map[string][]string {
	found := make(map[string][]string)
	for _, c := range h.Examine(project, fix).Categories {
		for _, f := range c.Results {
			if f.Severity != Fine {
				found[c.Name] = append(found[c.Name], fmt.Sprintf("%s: %s", f.Severity, f.Message))
			}
		}
	}
	return found
}

func TestDoctor(t *testing.T) {
	p := demo(t)
	if got := diagnosis(p.Home, "demo", true); len(got["Agent Status"]) != 0 {
		t.Errorf("after a fix: %v", got)
	}
	if got := diagnosis(p.Home, "demo", false); len(got) != 0 {
		t.Fatalf("a sound project: %v", got)
	}
	reviewer, tester := p.must(t, "reviewer"), p.must(t, "tester")
	inbox := reviewer.Inbox()
	in := func(name string) string { return filepath.Join(inbox, name) }
	strange(t, inbox)
	write(t, in("good.yaml"), text())
	write(t, in("bad.yaml"), "\t")
	write(t, in("empty.yaml"), "")
	write(t, in("big.yaml"), strings.Repeat("x", 2<<20))
	write(t, in("other.yaml"), text("to: tester"))
	write(t, in("a b.yaml"), text())
	write(t, filepath.Join(reviewer.Outbox(), "foreign.yaml"), text())
	old := time.Now().Add(-25 * time.Hour)
	for _, name := range []string{"good.yaml", ".m.yaml.tmp-1-abc"} {
		if err := os.Chtimes(in(name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(tester.Inbox()); err != nil {
		t.Fatal(err)
	}
	write(t, tester.statusPath(), "runtime: x\nstatus: available\nupdated_at: '2026-01-01T00:00:00Z'\n")
	write(t, filepath.Join(p.Dir(), "workspace.json"), "[]")
	write(t, filepath.Join(p.agents(), "claude", "inbox", ".gitkeep"), "")

	found := diagnosis(p.Home, "demo", false)
	for category, wants := range map[string][]string{
		"Workspace":    {"error: workspace.json — invalid", "skip: claude — a name that every project has"},
		"Inbox Health": {"warn: reviewer/inbox — 6 message(s), oldest 25h stale", "warn: tester/inbox — directory missing"},
		"Messages": {
			".hidden.yaml — hidden", ".m.yaml.tmp-1-abc — left behind", "a b.yaml — its name", "bad.yaml — YAML parse error", "big.yaml — over 1048576 bytes",
			"empty.yaml — ", "fifo.yaml — not a regular file", "folder.yaml — not a regular", "link.yaml — not a regular", "loop.yaml — not a regular",
			"other.yaml — is to tester, and lies in the inbox of reviewer", "foreign.yaml — is from planner, and lies in the outbox of reviewer",
		},
		"Schemas":      {"error: tester/status.yaml — runtime 'x' not in claude"},
		"Agent Status": {"warn: claude/status.yaml — not found", "warn: tester/status.yaml — stale"},
	} {
		if len(found[category]) != len(wants) {
			t.Errorf("%s: %q", category, found[category])
			continue
		}
		for i, want := range wants {
			if !strings.Contains(found[category][i], want) {
				t.Errorf("%s: %s, want %s", category, found[category][i], want)
			}
		}
	}
	r := p.Home.Examine("demo", true)
	if !r.HasErrors || len(r.Fixed) != 4 {
		t.Errorf("fixed %q", r.Fixed)
	}
	if _, err := os.Lstat(in(".m.yaml.tmp-1-abc")); err == nil || !isFolder(tester.Inbox()) {
		t.Error("what was fixed is not")
	}
	for _, name := range []string{".hidden.yaml", "bad.yaml", "link.yaml"} {
		if _, err := os.Lstat(in(name)); err != nil {
			t.Errorf("a fix has removed %s", name)
		}
	}
	if r := p.Home.Examine("none", false); !r.HasErrors {
		t.Error("a project that is not there is sound")
	}
	if r := (Home(t.TempDir())).Examine("", false); r.HasErrors || r.Categories[0].Worst != Warn {
		t.Errorf("an empty home: %+v", r)
	}
}
