package statedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/acpd/acpd/internal/ownwords"
)

// HeldError is the error if a daemon runs on a state directory, or a program works on it.
type HeldError struct {
	Dir     string
	Program string // "" for a daemon
	PID     int    // 0 if it could not be read
}

func (e *HeldError) Error() string {
	who, next := "another daemon", "stop it with acpctl drain, or name another directory with --home"
	switch {
	case e.Program != "":
		who, next = fmt.Sprintf("%s (pid %d)", e.Program, e.PID), "wait until it ends"
	case e.PID != 0:
		who = "the daemon with pid " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("lock: %s runs on %s: %s", who, e.Dir, next)
}

// OwnWords returns the text.
func (e *HeldError) OwnWords() string { return e.Error() }

// LockDir locks a state directory for this process until the file that it returns is closed. It
// does not wait: if the lock is held, it returns a [*HeldError]. program is the name of this one
// for whoever finds the directory locked, "" for the daemon.
//
// The kernel holds the lock, so a crash leaves nothing behind; the content of the file is for
// people. The file stays: if it were removed, two processes could lock two files of the same name.
func LockDir(dir, program string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, ownwords.Errorf("lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, readHolder(f, dir)
		}
		return nil, ownwords.Errorf("lock: %s: %w: keep the state directory on a local disk", f.Name(), err)
	}
	writeHolder(f, program)
	return f, nil
}

// FindHolder returns who holds the lock of a state directory, or nil if nobody does or it is not
// known. It makes no file, and holds a shared lock for a moment: a daemon that starts then tries
// again.
func FindHolder(dir string) *HeldError {
	f, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close() // which lets go
	if !errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		return nil
	}
	return readHolder(f, dir)
}

// writeHolder writes into a locked file who holds it. On a full disk it leaves the file empty,
// which is better than the name of another process.
func writeHolder(f *os.File, program string) {
	text := strings.TrimSpace(strconv.Itoa(os.Getpid())+" "+program) + "\n"
	if _, err := f.WriteAt([]byte(text), 0); err != nil || f.Truncate(int64(len(text))) != nil {
		f.Truncate(0)
	}
}

// readHolder returns what the process that holds the lock has written there.
func readHolder(f *os.File, dir string) *HeldError {
	b := make([]byte, 64)
	n, _ := f.ReadAt(b, 0)
	first, program, _ := strings.Cut(strings.TrimSpace(string(b[:n])), " ")
	pid, _ := strconv.Atoi(first)
	return &HeldError{Dir: dir, Program: program, PID: pid}
}
