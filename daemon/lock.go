package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/acpd/acpd/client"
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

// dyingTime is how long a killed daemon may take to let go of its lock.
const dyingTime = time.Second

// takeLock takes the lock or fails with a [*LockedError]: at once where the daemon
// that has it answers on its socket, else when it has had the time to die. That
// its process is there proves nothing, for one that was killed is so for a while.
func takeLock(ctx context.Context, h home) (*lock, error) {
	f, err := os.OpenFile(h.lock(), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	try := func() error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	if err = try(); errors.Is(err, syscall.EWOULDBLOCK) {
		err = retryLock(ctx, h, try)
	}
	if err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &LockedError{Home: string(h), PID: readPID(f)}
		}
		return nil, fmt.Errorf("lock: %s: %w: keep the state directory on a local disk", h.lock(), err)
	}
	// The kernel's lock is what counts: a full disk leaves no pid for people, and none
	// but this one.
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if writeAt(f, pid) != nil || f.Truncate(int64(len(pid))) != nil {
		f.Truncate(0)
	}
	return &lock{f}, nil
}

// retryLock repeats try until it does not fail with EWOULDBLOCK, the other daemon
// shows that it lives, or dyingTime is over.
func retryLock(ctx context.Context, h home, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, dyingTime)
	defer cancel()
	asking, stop := context.WithCancel(ctx)
	var asker sync.WaitGroup
	defer asker.Wait()
	defer stop()
	asker.Go(func() {
		other := client.Client{Socket: h.socket()}
		defer other.Close()
		if _, err := other.Whoami(asking); err == nil {
			cancel()
		}
	})
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return syscall.EWOULDBLOCK
		}
		if err := try(); !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
	}
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
