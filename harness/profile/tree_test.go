package profile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a run hides from measuring, by depth, counts as too large.
// holds: security.md#headless-runs
func TestATreeThatHidesFiles(t *testing.T) {
	root := realDir(t)
	write := func(dir string, size int64) {
		t.Helper()
		makeDir(t, dir)
		writeFile(t, filepath.Join(dir, "file"), strings.Repeat("x", int(size)), 0o600)
	}
	write(filepath.Join(root, "a"), 1000)
	write(filepath.Join(root, "b"), 2000)
	link(t, "/", filepath.Join(root, "link"))
	if got := measureTree(root, 1<<20); got != 3000+5*entrySize {
		t.Errorf("%d bytes", got)
	}
	if got := measureTree(root, 100); got <= 100 {
		t.Errorf("%d bytes, over 100", got)
	}
	write(filepath.Join(root, strings.Repeat("d/", maxDepth-1)), 1)
	if got := measureTree(root, 1<<20); got > 1<<20 {
		t.Errorf("%d folders in each other count as too large", maxDepth)
	}
	deep := filepath.Join(root, strings.Repeat("d/", maxDepth))
	write(deep, 1)
	if got := measureTree(root, 1<<20); got <= 1<<20 {
		t.Errorf("%d bytes, with a folder that is too deep", got)
	}
	os.RemoveAll(deep)
	if err := os.Chmod(filepath.Join(root, "a"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(root, "a"), 0o700) // so that it can be removed
	if got := measureTree(root, 1<<20); got <= 1<<20 && os.Geteuid() != 0 {
		t.Errorf("%d bytes, with a folder that may not be read", got)
	}
	if got := measureTree(filepath.Join(root, "missing"), 1<<20); got <= 1<<20 {
		t.Errorf("%d bytes of nothing", got)
	}
}
