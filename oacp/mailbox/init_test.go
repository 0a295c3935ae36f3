package mailbox

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var everybody = Workspace{Agents: []string{"planner", "reviewer", "tester"}}

// initially makes projects until it is killed.
func initially(h Home) {
	for n := 0; ; n++ {
		os.RemoveAll(Project{h, "demo"}.Dir())
		if _, _, _, err := h.InitProject("demo", everybody); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

// staged are the temporary files below a project, whose names are those of files that init
// makes.
func staged(t *testing.T, p Project) (all []string) {
	t.Helper()
	err := filepath.WalkDir(p.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), tempMark) {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestInitRemovesWhatAKilledOneLeft: of each of its files, and nothing else.
func TestInitRemovesWhatAKilledOneLeft(t *testing.T) {
	h := Home(filepath.Join(t.TempDir(), "[o]a\\cp*"))
	p, _, _, err := h.InitProject("demo", everybody)
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	filepath.WalkDir(p.Dir(), func(path string, d fs.DirEntry, _ error) error {
		if d.Type().IsRegular() {
			made = append(made, path)
		}
		return nil
	})
	if len(made) < 20 {
		t.Fatalf("init makes %q", made)
	}
	for n, path := range made { // as a process that dies after it
		if _, err := stageFile(filepath.Dir(path), stagedFileName(path), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 { // or before the file was there
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if left := staged(t, p); len(left) != len(made) {
		t.Fatalf("%q", left)
	}
	mail, err := stageFile(filepath.Join(p.Dir(), "agents/reviewer/inbox"), "question.yaml", []byte("x")) // somebody is sending it
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := h.InitProject("demo", everybody); err != nil {
		t.Fatal(err)
	}
	if left := staged(t, p); len(left) != 1 || left[0] != mail {
		t.Errorf("left: %q", left)
	}
	for _, path := range made {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestKilledInit: whenever an init is killed, the next one leaves nothing of it.
func TestKilledInit(t *testing.T) {
	h := Home(t.TempDir())
	p := Project{h, "demo"}
	left := 0
	for range 20 {
		cmd := child("initially", p)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond) // until the fault
		cmd.Process.Kill()
		cmd.Wait()
		if _, err := os.Stat(p.Dir()); err == nil {
			left += len(staged(t, p))
		}
		if _, _, _, err := h.InitProject("demo", everybody); err != nil {
			t.Fatal(err)
		}
		if all := staged(t, p); len(all) > 0 {
			t.Fatalf("left: %q", all)
		}
	}
	t.Logf("%d temporary files were left by 20 that were killed", left)
}

// TestInitsAtATime: two that make one project do not take each other's files for left behind.
func TestInitsAtATime(t *testing.T) {
	h := Home(t.TempDir())
	for n := range 10 {
		name := fmt.Sprint("demo", n)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, _, _, err := h.InitProject(name, everybody); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if left := staged(t, Project{h, name}); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}
