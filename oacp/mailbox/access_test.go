package mailbox

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOwnUser: nobody but the user gets at what is made here. Folders that are open to others
// are found, unless a folder above them keeps the others out.
// holds: security.md#on-this-machine
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
	finds := func(open int, writable bool) {
		t.Helper()
		if found, canWrite := p.FindOpenFolders(); len(found) != open || canWrite != writable {
			t.Errorf("finds %q, writable %t, expected %d, %t", found, canWrite, open, writable)
		}
	}
	chmod(0o755, string(p.Home))
	finds(0, false)
	chmod(0o755, p.Home.projectsDir(), p.Dir(), p.agentsDir(), reviewer.Dir(), reviewer.Inbox())
	finds(1, false)
	planner := p.must(t, "planner")
	chmod(0o775, planner.Dir(), planner.Outbox())
	finds(2, true)
	chmod(0o700, string(p.Home))
	finds(0, false)
	chmod(0o755, string(p.Home))
	chmod(0o700, planner.Dir(), reviewer.Dir())
	finds(0, false)
}
