package daemon

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lock is the exclusive use of a state directory. The kernel holds it for the
// process, so a crash leaves nothing behind; the pid inside is for people.
type lock struct{ file *os.File }

// LockedError says that another daemon runs on the state directory.
type LockedError struct {
	Home string
	PID  int // 0 where it could not be read
}

func (e *LockedError) Error() string {
	who := "another daemon"
	if e.PID != 0 {
		who = "the daemon with pid " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("lock: %s runs on %s: stop it, or start this one with another --home", who, e.Home)
}

// takeLock takes the lock or fails at once with a [*LockedError].
func takeLock(home, path string) (*lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &LockedError{Home: home, PID: readPID(f)}
		}
		return nil, fmt.Errorf("lock: %s: %w: keep the state directory on a local disk", path, err)
	}
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if err := errors.Join(f.Truncate(0), writeAt(f, pid)); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock: write the pid: %w", err)
	}
	return &lock{f}, nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

func readPID(f *os.File) int {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return pid
}

// release ends the lock. The file stays: removing it would let two daemons lock
// two files of the same name.
func (l *lock) release() error { return l.file.Close() }
