package run

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A folder that cannot be read stays as it is: a run of the same user could take the right to read it, and
// leave there what programs obey.
func TestFoldersThatCannotBeReadAreKept(t *testing.T) {
	const nobody = 65534
	dir := t.TempDir()
	locked := filepath.Join(dir, "a", "locked")
	err := errors.Join(os.MkdirAll(locked, 0o755), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(locked, 0))
	if os.Geteuid() == 0 {
		err = errors.Join(err, os.Chown(locked, nobody, nobody))
	}
	if err != nil {
		t.Fatal(err)
	}
	var p *project
	var looking sync.WaitGroup
	looking.Go(func() {
		if os.Geteuid() == 0 { // who may read everything: this thread is another user, and ends here
			runtime.LockOSThread()
			if err = unix.Setfsuid(nobody); err != nil {
				return
			}
		}
		p, err = openProject(dir)
	})
	if looking.Wait(); err != nil {
		t.Fatal(err)
	}
	defer p.root.Close()
	if !slices.Contains(p.keep, locked) {
		t.Errorf("kept are %q", p.keep)
	}
}

// No run changes a setting of the kernel, though it is root's.
func TestSettingsOfTheKernelStay(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		if !c.Confines() {
			return
		}
		dir := newProject(t, nil)
		runIn(t, c, dir, `echo begun >opened; for f in kernel/core_pattern kernel/hostname vm/drop_caches; do (: >>/proc/sys/$f) && echo $f >>opened; done`)
		if opened, err := os.ReadFile(filepath.Join(dir, "opened")); err != nil || string(opened) != "begun\n" {
			t.Errorf("%q, %v", opened, err)
		}
	})
}
