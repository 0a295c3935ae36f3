package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/statedir"
)

// LockedError says that another daemon runs on the state directory, or acpctl works on it.
type LockedError struct {
	Home    string
	PID     int    // 0 if it could not be read
	Program string // "" for a daemon
}

func (e *LockedError) Error() string {
	who, next := "another daemon", "stop it, or start this one with another --home"
	switch {
	case e.Program != "":
		who, next = e.Program, "wait until it ends"
	case e.PID != 0:
		who = "the daemon with pid " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("lock: %s runs on %s: %s", who, e.Home, next)
}

// dyingTime bounds how long a killed daemon may take to let go of its lock.
const dyingTime = time.Second

// lockHome locks a state directory for this process, until the file that it returns is
// closed. The kernel holds the lock, so a crash leaves nothing behind; the pid inside is for
// people. The file stays: if it were removed, two daemons could lock two files of the same
// name.
//
// If another daemon has the lock, lockHome returns a [*LockedError]: at once if that daemon
// answers on its socket, else after dyingTime. That its process exists proves nothing,
// because the process of a killed daemon does so for a while.
func lockHome(ctx context.Context, h home) (*os.File, error) {
	f, err := os.OpenFile(h.filePath(statedir.LockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	try := func() error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	if err = try(); errors.Is(err, syscall.EWOULDBLOCK) {
		err = retryHomeLock(ctx, h, try)
	}
	if err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			pid, program := statedir.ReadHolder(f)
			return nil, &LockedError{Home: string(h), PID: pid, Program: program}
		}
		return nil, fmt.Errorf("lock: %s: %w: keep the state directory on a local disk", f.Name(), err)
	}
	statedir.WriteHolder(f, "") // only the kernel's lock counts
	return f, nil
}

// retryHomeLock repeats try until it does not fail with EWOULDBLOCK, the other daemon
// shows that it lives, or dyingTime is over.
func retryHomeLock(ctx context.Context, h home, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, dyingTime)
	defer cancel()
	asking, stop := context.WithCancel(ctx)
	var asker sync.WaitGroup
	defer asker.Wait()
	defer stop()
	asker.Go(func() {
		other := client.Client{Socket: h.ownerSocketPath()}
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
