package clitest

import (
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// FullDisk takes so many writes, and then fails like a file on a full disk.
type FullDisk struct {
	Writes int
	Taken  bytes.Buffer
}

func (f *FullDisk) Write(b []byte) (int, error) {
	if f.Writes == 0 {
		return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
	}
	f.Writes--
	return f.Taken.Write(b)
}

// RunOnFullDisk runs a command line, without --home, whose output is written to a full disk, and
// returns the exit code.
func (d *FakeDaemon) RunOnFullDisk(stderr io.Writer, args ...string) int {
	return d.RunWithoutHome(d.t.Context(), ui.Terminal{In: strings.NewReader(""), Out: &FullDisk{}, Err: stderr}, args...)
}

// WantDiskFull runs a command line whose output is written to a full disk. It fails the test
// if that is not told, with what was done.
func (d *FakeDaemon) WantDiskFull(done string, args ...string) {
	d.t.Helper()
	for _, args := range [][]string{args, append([]string{"--json"}, args...)} {
		var stderr bytes.Buffer
		got := d.RunOnFullDisk(&stderr, append([]string{"--home", d.Home}, args...)...)
		told := ": write to standard output: no space left on device"
		if done != "" {
			told += "; " + done
		}
		if got != frame.ExitLocal || !strings.HasSuffix(stderr.String(), told+"\n") || !strings.HasPrefix(stderr.String(), "acpctl ") {
			d.t.Errorf("%s: exit code %d\n%s", strings.Join(args, " "), got, &stderr)
		}
	}
}
