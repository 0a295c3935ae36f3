//go:build netns

package netns

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

// TestMailboxDisk: mailboxes on a disk that fills up, and on one that becomes
// read-only. Nothing is sent by halves, nothing is left behind, what can be read is.
func TestMailboxDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=512k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	oacp := func(exit int, args ...string) string {
		t.Helper()
		cmd := exec.Command(live.ProgramPath(t, "acpctl"), append([]string{"oacp", "--oacp-dir", disk}, args...)...)
		cmd.Stdin = strings.NewReader(strings.Repeat("line\n", 3000))
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != exit {
			t.Fatalf("%q: %v, want exit code %d: %s", args, err, exit, &said)
		}
		return said.String()
	}
	message := []string{"send", "demo", "--from", "planner", "--to", "reviewer,tester", "--type", "notification", "--subject", "S"}
	files := func() []string {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(disk, "projects/demo/agents/*/*box/*.yaml*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	oacp(0, "init", "demo", "--agents", "planner,reviewer,tester")
	oacp(0, message...)

	filler, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	if err := errors.Join(filler.Close(), os.Truncate(filler.Name(), 488<<10)); err != nil {
		t.Fatal(err)
	}
	// There may be room for a copy, and not for all three.
	if said := oacp(1, message...); !strings.Contains(said, "nothing was sent: ") || !strings.Contains(said, "no space left") {
		t.Errorf("on a full disk: %s", said)
	}
	if got := files(); len(got) != 3 {
		t.Errorf("on a full disk there are %q", got)
	}
	oacp(0, "inbox", "demo", "--all")
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	oacp(0, message...)
	if got := files(); len(got) != 6 {
		t.Errorf("with space again there are %q", got)
	}

	file, err := filepath.Glob(filepath.Join(disk, "projects/demo/agents/tester/inbox/*.yaml"))
	if err != nil || len(file) != 2 {
		t.Fatal(file, err)
	}
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{message, {"done", "demo", "tester", filepath.Base(file[0])}, {"watch", "--agent", "tester", "--project", "demo"}, {"init", "other"}} {
		if said := oacp(1, args...); !strings.Contains(said, "read-only file system") {
			t.Errorf("%q on a read-only disk: %s", args, said)
		}
	}
	for _, args := range [][]string{{"inbox", "demo", "--all"}, {"read", "demo", "tester", filepath.Base(file[0])}, {"validate", file[0]}} {
		oacp(0, args...)
	}
	if got := files(); len(got) != 6 {
		t.Errorf("on a read-only disk there are %q", got)
	}
}
