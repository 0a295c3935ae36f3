package statedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// HeldError says that a program works on a state directory.
type HeldError struct {
	Dir     string
	Program string // "" for acpd
	PID     int    // 0 if it could not be read
}

func (e *HeldError) Error() string {
	who, next := "acpd", "stop it first"
	if e.Program != "" {
		who, next = e.Program, "wait until it ends"
	}
	if e.PID != 0 {
		who += " (pid " + strconv.Itoa(e.PID) + ")"
	}
	return fmt.Sprintf("lock: %s runs on %s: %s", who, e.Dir, next)
}

// LockDir locks a state directory for this process, as the daemon does, until the file that it
// returns is closed. It does not wait: if the lock is held, it returns a [*HeldError]. The
// name of the program is for whoever finds the directory locked.
func LockDir(dir, program string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			pid, program := ReadHolder(f)
			return nil, &HeldError{Dir: dir, Program: program, PID: pid}
		}
		return nil, fmt.Errorf("lock: %s: %w: keep the state directory on a local disk", f.Name(), err)
	}
	WriteHolder(f, program)
	return f, nil
}

// WriteHolder writes into a locked file who holds it; program is "" for the daemon. On a full
// disk it leaves the file empty, which is better than the name of another process.
func WriteHolder(f *os.File, program string) {
	text := strings.TrimSpace(strconv.Itoa(os.Getpid())+" "+program) + "\n"
	if _, err := f.WriteAt([]byte(text), 0); err != nil || f.Truncate(int64(len(text))) != nil {
		f.Truncate(0)
	}
}

// ReadHolder returns what the process that holds the lock has written there.
func ReadHolder(f *os.File) (pid int, program string) {
	b := make([]byte, 64)
	n, _ := f.ReadAt(b, 0)
	first, program, _ := strings.Cut(strings.TrimSpace(string(b[:n])), " ")
	pid, _ = strconv.Atoi(first)
	return pid, program
}
