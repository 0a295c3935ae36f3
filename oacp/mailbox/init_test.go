package mailbox

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var everybody = Workspace{Agents: []string{"planner", "reviewer", "tester"}}

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

// TestInitsAtATime: several can make one project at a time, and leave no temporary file.
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
