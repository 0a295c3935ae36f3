package profile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/acpd/acpd/harness/run"
	"github.com/acpd/acpd/kinds"
)

func TestCheckDir(t *testing.T) {
	home := realDir(t)
	t.Setenv("HOME", home)
	state := filepath.Join(home, ".acp")
	for _, dir := range []string{"project", ".acp/agent"} {
		makeDir(t, filepath.Join(home, dir))
	}
	link(t, home, filepath.Join(home, "project", "up"))
	for _, dir := range []string{"/", home, filepath.Dir(home), "~/.acp", "~/.acp/agent", "~/missing", "~/project/up", "~/project/up/.acp"} {
		if got, err := CheckDir(dir, state); err == nil {
			t.Errorf("%s: %s", dir, got)
		}
	}
	for _, dir := range []string{"~/project", filepath.Join(home, "project", "up", "project")} {
		if got, err := CheckDir(dir, state); err != nil || got != filepath.Join(home, "project") {
			t.Errorf("%s: %s, %v", dir, got, err)
		}
	}
	if got, err := CheckDir("", state); err != nil || got != "" {
		t.Error(got, err)
	}
}

// A folder that has what the program would obey is refused, also if it has got it since the last
// run, and also if the repository has it in which the folder lies. What lies above that is the
// user's.
// holds: security.md#headless-runs
func TestCheckFolder(t *testing.T) {
	r, b := newRunner(t, run.None)
	r.Profile.forbid = []string{".agent", "agent.json", "file/agent"}
	home := realDir(t)
	r.Dir = filepath.Join(home, "repository", "parser", "src")
	makeDir(t, r.Dir)
	writeFile(t, filepath.Join(r.Dir, "file"), "", 0o600) // which has nothing in it
	isRefused := func() bool {
		_, err := r.Run(t.Context(), Request{Peer: desk, Prompt: "record"})
		if (err != nil) != (r.Profile.CheckFolder(r.Dir) != nil) {
			t.Errorf("a run: %v", err)
		}
		if err != nil {
			wantCode(t, err, kinds.Internal, home)
		}
		return err != nil
	}
	for _, c := range []struct {
		path      string
		isRefused bool
	}{
		{"agent.json", false}, {"repository/.agent/plugin", false}, {"repository/parser/agent.json", false}, // there is no repository yet
		{"repository/.git", true}, {"repository/parser/.git", true}, {"repository/parser/src/.agent", true},
	} {
		makeDir(t, filepath.Join(home, c.path))
		if got := isRefused(); got != c.isRefused {
			t.Errorf("with %s it is refused: %t", c.path, got)
		}
	}
	for _, path := range []string{"repository/parser/src/.agent", "repository/parser/agent.json"} {
		if err := os.Remove(filepath.Join(home, path)); err != nil {
			t.Fatal(err)
		}
	}
	if isRefused() { // by what lies above the repository of parser
		t.Error("it is refused for what is not the repository's")
	}
	link(t, "/nowhere", filepath.Join(r.Dir, "agent.json"))
	if !isRefused() || !b.settled[len(b.settled)-1].NotBegun {
		t.Errorf("a link, or a cost of what did not begin: %+v", b.settled)
	}
}

// No profile shows a run what is the daemon's own, by whatever way.
func TestCheckPaths(t *testing.T) {
	home := realDir(t)
	t.Setenv("HOME", home)
	state := filepath.Join(home, ".acp")
	for _, dir := range []string{".acp/agent", "data"} {
		makeDir(t, filepath.Join(home, dir))
	}
	link(t, filepath.Join(state, "agent"), filepath.Join(home, "link"))
	for path, ok := range map[string]bool{"~/data": true, "~/missing": true, "~/.acp": false, "~/.acp/agent": false, "~/link": false, home: false, "/": false} {
		for _, p := range []*Profile{{Read: []string{path}}, {Credentials: []Credential{{File: path}}}} {
			if err := p.CheckPaths(filepath.Join(home, "missing", "runs"), state); (err == nil) != ok {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

func TestCheckPathsOutside(t *testing.T) {
	home := realDir(t)
	t.Setenv("HOME", home)
	for _, dir := range []string{"project/docs", "data"} {
		makeDir(t, filepath.Join(home, dir))
	}
	project := filepath.Join(home, "project")
	for from, to := range map[string]string{"alias": project, "project/link": filepath.Join(home, "data")} {
		link(t, to, filepath.Join(home, from))
	}
	for path, ok := range map[string]bool{"~/data": true, "~/missing": true, "~/project/docs": false, "~/project/missing": false, "~/alias/docs": false, "~/project/link": false, "~/alias/link": false} {
		for _, p := range []*Profile{{Read: []string{path}}, {Credentials: []Credential{{File: path}}}} {
			if err := p.CheckPathsOutside(project); (err == nil) != ok {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}
