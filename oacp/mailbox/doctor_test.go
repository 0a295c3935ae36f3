package mailbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// diagnosis returns the findings that are worse than fine, by category.
func diagnosis(h Home, project string, fix bool) map[string][]string {
	found := make(map[string][]string)
	for _, c := range h.Diagnose(project, fix).Categories {
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
	write(t, filepath.Join(p.agentsDir(), "claude", "inbox", ".gitkeep"), "")

	found := diagnosis(p.Home, "demo", false)
	for category, wants := range map[string][]string{
		"Workspace":    {"error: workspace.json — invalid", "skip: claude — a name that every project has"},
		"Inbox Health": {"warn: reviewer/inbox — 6 message(s), oldest 25h stale", "warn: tester/inbox — directory missing"},
		"Messages": {
			".hidden.yaml — hidden", ".m.yaml.tmp-1-abc — left behind", "a b.yaml — its name", "bad.yaml — YAML parse error", "big.yaml — over 1048576 bytes",
			"empty.yaml — ", "fifo.yaml — not a regular file", "folder.yaml — not a regular", "link.yaml — not a regular", "loop.yaml — not a regular",
			"other.yaml — is to tester, but is stored in the inbox of reviewer", "foreign.yaml — is from planner, but is stored in the outbox of reviewer",
		},
		"Schemas":      {"error: tester/status.yaml — runtime 'x' not in claude"},
		"Agent Status": {"skip: claude/status.yaml — not found: the agent has not said yet how it is", "warn: tester/status.yaml — stale"},
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
	r := p.Home.Diagnose("demo", true)
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
	if r := p.Home.Diagnose("none", false); !r.HasErrors {
		t.Error("a project that is not there is sound")
	}
	if r := (Home(t.TempDir())).Diagnose("", false); r.HasErrors || r.Categories[0].Worst != Warn {
		t.Errorf("an empty home: %+v", r)
	}
}

// TestOwnUser: nobody but the user gets at what is made here; the doctor tells of what
// others have made otherwise, unless a folder above it keeps them out.
func TestOwnUser(t *testing.T) {
	p := demo(t)
	reviewer := p.must(t, "reviewer")
	s := send(t, p, question("reviewer"))
	e, err := FindMessageIn(s.Message.ID, reviewer.Inbox())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reviewer.FinishMessage(e, false); err != nil {
		t.Fatal(err)
	}
	w := Watch{Home: p.Home, Agent: "reviewer", Projects: []string{"demo"}}
	w.Scan(func(Event) {})
	p.Home.Diagnose("demo", true)
	seen := 0
	err = filepath.WalkDir(p.Dir(), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		if mode := info.Mode().Perm(); mode&0o077 != 0 || d.IsDir() && mode != 0o700 || !d.IsDir() && mode != 0o600 {
			t.Errorf("%s has mode %04o", path, mode)
		}
		return nil
	})
	if err != nil || seen < 20 {
		t.Fatalf("%d files: %v", seen, err)
	}

	chmod := func(mode os.FileMode, dirs ...string) {
		t.Helper()
		for _, dir := range dirs {
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	tells := func(want string) {
		t.Helper()
		found := diagnosis(p.Home, "demo", false)["Access"]
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || !strings.Contains(found[0], want)) {
			t.Errorf("the doctor tells %q, expected %q", found, want)
		}
	}
	chmod(0o755, string(p.Home))
	tells("")
	chmod(0o755, p.Home.projectsDir(), p.Dir(), p.agentsDir(), reviewer.Dir(), reviewer.Inbox())
	tells("warn: 1 mailbox folder(s) — open to other users of this machine, who can read mail: reviewer/inbox has mode 0755")
	planner := p.must(t, "planner")
	chmod(0o775, planner.Dir(), planner.Outbox())
	tells("warn: 2 mailbox folder(s) — open to other users of this machine, who can write mail in any name: planner/outbox has mode 0775")
	chmod(0o700, string(p.Home))
	tells("")
	chmod(0o755, string(p.Home))
	chmod(0o700, planner.Dir(), reviewer.Dir())
	tells("")
}
