package run

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// newProject makes a folder with files. A text that begins with -> is where a symbolic link leads.
func newProject(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := realDir(t)
	for path, text := range files {
		path = filepath.Join(dir, path)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if to, link := strings.CutPrefix(text, "->"); err == nil && link {
			err = os.Symlink(to, path)
		} else if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// readProject returns the files below a folder as [newProject] takes them, without those that are as
// they were. The random part of what is renamed is left out.
func readProject(t *testing.T, dir string, were map[string]string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var text string
		if d.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			if text = "->" + to; err != nil {
				return err
			}
		} else if read, err := os.ReadFile(path); err != nil {
			return err
		} else {
			text = strings.TrimSpace(string(read))
		}
		rel, err := filepath.Rel(dir, path)
		if name := hideRandom(rel); were[rel] != text {
			files[name] = text
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var randomPart = regexp.MustCompile(`left-by-a-run-[A-Z2-7]{6}`)

func hideRandom(path string) string { return randomPart.ReplaceAllString(path, "left-by-a-run") }

// runIn runs a shell script in a project.
func runIn(t *testing.T, c Confinement, dir, script string) Exit {
	t.Helper()
	s, _ := spec(t, c)
	s.Argv, s.Env = []string{"/bin/sh", "-c", script}, append(s.Env, "PATH="+SystemPath)
	s.Dir, s.Project, s.Write = dir, dir, append(s.Write, dir)
	exit, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

// ofProject are files of the owner's, most of which his programs obey.
var ofProject = map[string]string{
	".git/config": "own", ".git/hooks/pre-commit": "own", "module/.git": "gitdir: ../.git/modules/module", "a/b/c/.git/config": "own",
	".claude/settings.json": "own", ".mcp.json": "own", ".vscode/tasks.json": "own", ".envrc": "own", "AGENTS.md": "own", "GEMINI.md": "own", "module/AGENTS.md": "own",
	"CLAUDE.md": "->docs/agents.md", "docs/agents.md": "own", "a/CLAUDE.md": "->../AGENTS.md", "dangling/CLAUDE.md": "->nothing",
	"bare/HEAD": "own", "bare/config": "own", "bare/objects/x": "own", "bare/refs/x": "own", "main.go": "own",
}

// What the owner's programs obey in a project stays as it is, whatever a run does to it: at any depth,
// also by another name of it, and if a folder around it is moved, which is reported. Links that it removes are
// made anew.
// holds: security.md#headless-runs
func TestWhatIsObeyedStays(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		if !c.KeepsObeyed() {
			return
		}
		dir := newProject(t, ofProject)
		exit := runIn(t, c, dir, `
			for f in .git/config .git/hooks/pre-commit .git/hooks/post-checkout .git/commondir module/.git a/b/c/.git/config .claude/settings.json .claude/new \
				.mcp.json .vscode/tasks.json .envrc AGENTS.md GEMINI.md module/AGENTS.md CLAUDE.md a/CLAUDE.md bare/HEAD bare/config bare/new; do
				(echo evil >$f)
				rm -rf $f
				mv $f moved
			done
			for f in .git module/.git .claude .vscode bare; do
				mv $f moved
				rm -rf $f
				rmdir $f
			done
			ln AGENTS.md hard && echo evil >hard
			rm dangling/CLAUDE.md && mkdir dangling/CLAUDE.md
			mv module elsewhere && mkdir module
			mv a/b a/moved
			echo done >main.go`)
		wanted := map[string]string{"main.go": "done", "elsewhere/.git": ofProject["module/.git"], "elsewhere/AGENTS.md": "own", "a/moved/c/.git/config": "own"}
		wanted["moved"] = "own" // a copy, which mv makes of what cannot be moved
		got := readProject(t, dir, ofProject)
		for _, link := range []string{"CLAUDE.md", "a/CLAUDE.md", "dangling/CLAUDE.md"} {
			if to, err := os.Readlink(filepath.Join(dir, link)); "->"+to != ofProject[link] {
				t.Errorf("%s leads to %q: %v", link, to, err)
			}
		}
		for path, text := range got {
			if wanted[path] != text {
				t.Errorf("%s: %q", path, text)
			}
		}
		for path := range wanted {
			if got[path] == "" {
				t.Errorf("%s is missing", path)
			}
		}
		for _, path := range []string{".git/config", ".git/hooks/pre-commit", ".claude/settings.json", ".mcp.json", ".vscode/tasks.json", ".envrc", "AGENTS.md", "docs/agents.md", "bare/HEAD", "bare/config"} {
			if text, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(text) != "own" {
				t.Errorf("%s: %q, %v", path, text, err)
			}
		}
		if len(exit.Left) != 1 || hideRandom(exit.Left[0]) != "dangling/CLAUDE.md.left-by-a-run" || len(exit.Unseen) != 0 {
			t.Errorf("left %q, unseen %q; %s", exit.Left, exit.Unseen, exit.Stderr)
		}
		slices.Sort(exit.Gone)
		if want := []string{"a/b/c/.git", "module/.git", "module/AGENTS.md"}; !slices.Equal(exit.Gone, want) {
			t.Errorf("gone %q, want %q", exit.Gone, want)
		}
	})
}

// What a run makes that programs would obey has another name when the run has ended: at any depth, in
// folders that are not readable, behind symbolic links. All else stays, and so does what was there.
// holds: security.md#headless-runs
func TestWhatARunLeaves(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		dir := newProject(t, ofProject)
		exit := runIn(t, c, dir, `
			mkdir -p new/deep/.git/objects new/deep/.git/refs .codex like/objects like/refs worktree hidden/below
			echo evil >new/deep/.git/config
			echo evil >new/deep/.git/HEAD
			echo evil >new/CLAUDE.md
			echo evil >.codex/config.toml
			echo evil >like/HEAD; echo evil >like/config
			echo evil >worktree/HEAD; echo evil >worktree/commondir
			echo evil >hidden/below/.envrc; chmod 0 hidden/below; chmod 0 hidden
			ln -s new .agents
			ln -s ../AGENTS.md new/AGENTS.md
			mv docs other; mkdir docs; echo evil >docs/agents.md
			echo evil >dangling/nothing
			echo fine >new/main.go`)
		if exit.Code != 0 {
			t.Fatalf("%+v", exit)
		}
		got := readProject(t, dir, ofProject)
		wanted := map[string]string{
			"new/deep/.git.left-by-a-run/config": "evil", "new/deep/.git.left-by-a-run/HEAD.left-by-a-run": "evil", "new/CLAUDE.md.left-by-a-run": "evil",
			".codex.left-by-a-run/config.toml": "evil", "like/HEAD.left-by-a-run": "evil", "like/config": "evil",
			"worktree/HEAD.left-by-a-run": "evil", "worktree/commondir": "evil", "hidden/below/.envrc.left-by-a-run": "evil",
			".agents.left-by-a-run": "->new", "new/AGENTS.md.left-by-a-run": "->../AGENTS.md", "CLAUDE.md.left-by-a-run": "->docs/agents.md",
			"docs/agents.md": "evil", "other/agents.md": "own", "dangling/CLAUDE.md.left-by-a-run": "->nothing", "dangling/nothing": "evil", "new/main.go": "fine",
		}
		for path, text := range wanted {
			if got[path] != text {
				t.Errorf("%s: %q, want %q", path, got[path], text)
			}
			delete(got, path)
		}
		for path, text := range got {
			t.Errorf("%s: %q", path, text)
		}
		var left []string
		for _, path := range exit.Left {
			left = append(left, hideRandom(path))
		}
		slices.Sort(left)
		if want := []string{
			".agents.left-by-a-run", ".codex.left-by-a-run", "CLAUDE.md.left-by-a-run", "dangling/CLAUDE.md.left-by-a-run", "hidden/below/.envrc.left-by-a-run",
			"like/HEAD.left-by-a-run", "new/AGENTS.md.left-by-a-run", "new/CLAUDE.md.left-by-a-run", "new/deep/.git.left-by-a-run", "worktree/HEAD.left-by-a-run",
		}; !slices.Equal(left, want) || len(exit.Unseen) != 0 {
			t.Errorf("left %q, unseen %q", left, exit.Unseen)
		}
		slices.Sort(exit.Gone)
		if want := []string{"CLAUDE.md", "dangling/CLAUDE.md"}; !slices.Equal(exit.Gone, want) {
			t.Errorf("gone %q, want %q", exit.Gone, want)
		}
	})
}

// What a run has nested too deep to be looked through is named.
func TestWhatIsTooDeep(t *testing.T) {
	dir := newProject(t, map[string]string{"main.go": "own"})
	exit := runIn(t, None, dir, `for i in $(seq 110); do mkdir d; cd d; done; echo evil >CLAUDE.md`)
	if exit.Code != 0 || len(exit.Left) != 0 || len(exit.Unseen) != 1 || strings.Count(exit.Unseen[0], "d") != maxDepth+1 {
		t.Errorf("%+v", exit)
	}
}

// A project of which more would have to be kept than can be is refused.
func TestTooMuchToKeep(t *testing.T) {
	files := make(map[string]string)
	for i := range maxKept {
		files[fmt.Sprintf("%d/AGENTS.md", i)] = "own"
	}
	dir := newProject(t, files)
	if err := CheckProject(dir); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".envrc"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckProject(dir); err == nil || !strings.Contains(err.Error(), "name one with fewer") {
		t.Errorf("err = %v", err)
	}
}

// While one run changes a folder, another one waits for it, in this process and in another.
// holds: security.md#headless-runs
func TestLockProject(t *testing.T) {
	dir := realDir(t)
	locked := func() bool {
		t.Helper()
		short, cancel := context.WithTimeout(t.Context(), 2*lookForLock)
		defer cancel()
		unlock, err := LockProject(short, dir)
		if err == nil {
			unlock()
		} else if err != context.DeadlineExceeded {
			t.Errorf("err = %v", err)
		}
		return err != nil
	}
	unlock, err := LockProject(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if !locked() {
		t.Error("two runs of this process have the folder")
	}
	unlock()
	other, err := os.Open(dir) // as another process has it
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if !locked() {
		t.Error("runs of two processes have the folder")
	}
	other.Close()
	if locked() {
		t.Error("it stays locked")
	}
}
