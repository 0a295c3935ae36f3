package mailbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/oacp/message"
)

// demo is a project with the agents planner, reviewer and tester.
func demo(t testing.TB) Project {
	t.Helper()
	p, _, _, err := Home(t.TempDir()).InitProject("demo", Workspace{Agents: []string{"planner", "reviewer", "tester"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p Project) must(t testing.TB, name string) Agent {
	t.Helper()
	a, err := p.FindAgent(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// question is a letter from planner.
func question(to ...string) Letter {
	return Letter{Message: message.Message{From: "planner", To: to, Type: "question", Priority: "P2", Subject: "Which branch?", Body: "Soon.\n"}}
}

func send(t testing.TB, p Project, l Letter) Sent {
	t.Helper()
	s, err := p.Home.SendLetter(p.Name, l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func content(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// files lists a folder, hidden files too.
func files(t testing.TB, dir string) []string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		if e.Name() != ".gitkeep" {
			names = append(names, e.Name())
		}
	}
	return names
}

// text is a message file; the fields replace those that it has, or add to them.
func text(fields ...string) string {
	lines := []string{"id: m1", "from: planner", "to: reviewer", "type: question", "priority: P2", `created_at_utc: "2026-01-01T00:00:00Z"`, "subject: S", "body: x"}
	for _, f := range fields {
		key, _, _ := strings.Cut(f, ":")
		found := false
		for i, line := range lines {
			if strings.HasPrefix(line, key+":") {
				lines[i], found = f, true
			}
		}
		if !found {
			lines = append(lines, f)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestFindHome(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(parts ...string) string { return filepath.Join(append([]string{base}, parts...)...) }
	if _, _, _, err := Home(in("marked")).InitProject("demo", Workspace{}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"repo/deep", "other", "code"} {
		if err := os.MkdirAll(in(dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(in("marked/projects/demo/workspace.json"), in("repo/.oacp")); err != nil {
		t.Fatal(err)
	}
	write(t, in("code/workspace.json"), "{}") // an editor's
	t.Setenv("HOME", in("user"))
	for _, c := range []struct{ wd, dir, env, want string }{
		{"repo/deep", "named", "env", "named"},
		{"repo/deep", "", "env/./x//", "env/x"},
		{"repo/deep", "", "~/box", in("user/box")},
		{"repo/deep", "", "", in("marked")},
		{"marked/projects/demo/memory", "", "", in("marked")},
		{"other", "", "", in("user/oacp")},
		{"code", "", "", in("user/oacp")},
	} {
		t.Chdir(in(c.wd))
		t.Setenv("OACP_HOME", c.env)
		if got, err := FindHome(c.dir); err != nil || string(got) != c.want {
			t.Errorf("FindHome(%q) in %s with OACP_HOME=%q: %s, %v, want %s", c.dir, c.wd, c.env, got, err, c.want)
		}
	}
	if _, err := FindHome("~no-such-user-here/x"); err == nil {
		t.Error("the home of a user who is not there was found")
	}
}

func TestNames(t *testing.T) {
	p := demo(t)
	write(t, filepath.Join(string(p.Home), "evil", "agents", "planner", "inbox", "x"), "")
	for _, name := range []string{"", ".", "..", ".hidden", "../evil", "a/b", `a\b`, "a\x00b", "a\nb"} {
		if _, err := p.Home.FindProject(name); err == nil {
			t.Errorf("Project(%q) is legal", name)
		}
		if _, _, _, err := p.Home.InitProject(name, Workspace{}); err == nil {
			t.Errorf("Init(%q) made something", name)
		}
		l := question("reviewer")
		l.Create = true
		if _, err := p.Home.SendLetter(name, l); err == nil {
			t.Errorf("Send to the project %q", name)
		}
	}
	if err := os.Symlink(p.must(t, "planner").Dir(), filepath.Join(p.agentsDir(), "linked")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(p.agentsDir(), ".git", "x"), "")
	for _, name := range []string{"", "..", "nobody", "linked", ".git", "a/b", strings.Repeat("a", 65)} {
		if a, err := p.FindAgent(name); err == nil {
			t.Errorf("Agent(%q) is %v", name, a)
		}
	}
	names, err := p.ListAgents()
	if got := strings.Join(names, " "); got != "planner reviewer tester" || err != nil {
		t.Errorf("agents: %s, %v", got, err)
	}
}

func TestInit(t *testing.T) {
	home := Home(filepath.Join(t.TempDir(), "home"))
	repo := t.TempDir()
	write(t, filepath.Join(repo, "plan.md"), "x")
	w := Workspace{Agents: []string{"planner"}, Repo: repo, Links: []Link{{"plan.md", "a/plan.md"}, {"none", "none"}}}
	p, made, skipped, err := home.InitProject("demo", w)
	if err != nil || len(made) != 1 || len(skipped) != 1 {
		t.Fatal(made, skipped, err)
	}
	if got := content(t, filepath.Join(p.Dir(), "artifacts/a/plan.md")); got != "x" {
		t.Errorf("the link leads to %q", got)
	}
	facts := filepath.Join(p.Dir(), "memory/project_facts.md")
	write(t, facts, "mine")
	workspace := filepath.Join(p.Dir(), "workspace.json")
	created := strings.Split(content(t, workspace), "\n")[:4] // all but the time of the last change
	if _, _, _, err := home.InitProject("demo", Workspace{Agents: []string{"reviewer"}}); err != nil {
		t.Fatal(err)
	}
	if now := strings.Split(content(t, workspace), "\n")[:4]; !slices.Equal(now, created) || !strings.Contains(now[2], repo) {
		t.Errorf("workspace.json began with %q and begins with %q", created, now)
	}
	if got := content(t, facts); got != "mine" {
		t.Errorf("a second init has written %q", got)
	}
	for _, bad := range []Workspace{
		{Agents: []string{"a b"}},
		{Links: []Link{{"plan.md", "x"}}},
		{Repo: repo, Links: []Link{{"plan.md", "../../agents/planner/inbox/x.yaml"}}},
		{Repo: repo, Links: []Link{{"plan.md", "a"}}}, // a folder
	} {
		if _, _, _, err := home.InitProject("demo", bad); err == nil {
			t.Errorf("init with %+v", bad)
		}
	}
}

// put puts a file into a mailbox.
func put(dir, name, text string) (string, error) {
	temp, err := stageFile(dir, name, []byte(text))
	if err != nil {
		return "", err
	}
	return publishFile(temp, name, []byte(text))
}

func TestPut(t *testing.T) {
	dir := t.TempDir()
	comes := func(text, want string) {
		t.Helper()
		if path, err := put(dir, "m.yaml", text); err != nil || filepath.Base(path) != want {
			t.Fatalf("put %q: %s, %v, want %s", text, path, err, want)
		}
	}
	comes("a", "m.yaml")
	comes("b", "m_2.yaml")
	comes("a", "m.yaml")
	comes("b", "m_2.yaml")
	comes("", "m_3.yaml")
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "m_4.yaml")); err != nil {
		t.Fatal(err)
	}
	comes("c", "m_5.yaml")
	if got := strings.Join(files(t, dir), " "); got != "m.yaml m_2.yaml m_3.yaml m_4.yaml m_5.yaml" {
		t.Errorf("the folder holds %s", got)
	}
	if _, err := put(filepath.Join(dir, "none"), "m.yaml", ""); err == nil {
		t.Error("put into a folder that is not there")
	}
}

// strange puts into dir what is no message but has the name of one.
func strange(t testing.TB, dir string) {
	t.Helper()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.yaml"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link.yaml": "/etc/passwd", "loop.yaml": "loop.yaml"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "folder.yaml", "m.yaml"), text())
	write(t, filepath.Join(dir, ".hidden.yaml"), text())
	write(t, filepath.Join(dir, ".m.yaml.tmp-1-abc"), text())
	write(t, filepath.Join(dir, "m.yml"), text())
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	strange(t, dir)
	for _, name := range []string{"fifo.yaml", "link.yaml", "loop.yaml", "folder.yaml", "none.yaml"} {
		if b, _, err := readFile(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s: read %q", name, b)
		}
	}
	limit := filepath.Join(dir, "limit.yaml")
	for size, legal := range map[int]bool{0: true, message.MaxBytes: true, message.MaxBytes + 1: false, 2 << 20: false} {
		write(t, limit, strings.Repeat("x", size))
		if b, _, err := readFile(limit); legal != (err == nil) || legal && len(b) != size {
			t.Errorf("%d bytes: read %d, %v", size, len(b), err)
		}
	}
	if names, err := listMessageFiles(dir); err != nil || strings.Join(names, " ") != "limit.yaml" {
		t.Errorf("message files: %v, %v", names, err)
	}
}

func TestDone(t *testing.T) {
	p := demo(t)
	a := p.must(t, "reviewer")
	old := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	put := func(text string) Entry {
		path := filepath.Join(a.Inbox(), "m.yaml")
		write(t, path, text)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		return readMessageEntry(path)
	}
	for _, c := range []struct{ text, want string }{
		{text(), "m.yaml"}, {text("subject: T"), "m_2.yaml"}, {text(), "m.yaml"}, {"\t", "m_3.yaml"}, {strings.Repeat("x", 2<<20), "m_4.yaml"},
	} {
		path, err := a.FinishMessage(put(c.text), false)
		if err != nil || path != filepath.Join(a.Archive(), c.want) {
			t.Fatalf("done: %s, %v, want %s", path, err, c.want)
		}
		if info, err := os.Stat(path); content(t, path) != c.text || err != nil || !info.ModTime().Equal(old) {
			t.Errorf("%s was changed: %v %v", c.want, info.ModTime(), err)
		}
	}
	if _, err := a.FinishMessage(put("x"), true); err != nil {
		t.Error(err)
	}
	if got := files(t, a.Inbox()); len(got) != 1 || len(files(t, a.Archive())) != 4 {
		t.Errorf("the inbox holds %v", got)
	}

	e := put(text())
	write(t, e.Path, text("body: changed"))
	if _, err := a.FinishMessage(e, false); err == nil || content(t, e.Path) == text() {
		t.Errorf("a message that was changed meanwhile: %v", err)
	}
	e = readMessageEntry(e.Path)
	if err := os.Remove(e.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := a.FinishMessage(e, false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a message that is gone: %v", err)
	}
}

func TestFind(t *testing.T) {
	p := demo(t)
	a := p.must(t, "reviewer")
	strange(t, a.Inbox())
	write(t, filepath.Join(a.Inbox(), "m.yaml"), text())
	write(t, filepath.Join(a.Inbox(), "bad.yaml"), "\t")
	write(t, filepath.Join(a.Archive(), "old.yaml"), text("id: m2"))
	write(t, filepath.Join(a.Outbox(), "sent.yaml"), text("id: m3"))
	write(t, filepath.Join(a.Outbox(), "twin.yaml"), text("id: m3"))
	for ref, want := range map[string]string{
		"m1": "m.yaml", " m1 ": "m.yaml", "m.yaml": "m.yaml", "bad.yaml": "bad.yaml", "m2": "old.yaml", "old.yaml": "old.yaml",
		"m3": "sent.yaml", filepath.Join(a.Inbox(), "m.yaml"): "m.yaml",
	} {
		if e, err := a.FindMessage(ref); err != nil || e.Name != want {
			t.Errorf("Find(%q): %s, %v, want %s", ref, e.Name, err, want)
		}
	}
	for _, ref := range []string{"", "m9", "none.yaml", ".hidden.yaml", "../m.yaml", "/etc/passwd", filepath.Join(a.Dir(), "m.yaml")} {
		if e, err := a.FindMessage(ref); err == nil {
			t.Errorf("Find(%q) is %s", ref, e.Path)
		}
	}
	write(t, filepath.Join(a.Outbox(), "twin.yaml"), text("id: m3", "body: other"))
	if _, err := a.FindMessage("m3"); err == nil || !strings.Contains(err.Error(), "sent.yaml") {
		t.Errorf("an id of two messages: %v", err)
	}
}
