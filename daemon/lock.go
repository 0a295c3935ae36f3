package daemon

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/internal/statedir"
)

// dyingTime bounds how long a killed daemon may take to let go of its lock.
const dyingTime = time.Second

// lockHome locks a state directory as [statedir.LockDir] does. If another daemon has the lock, it
// returns a [*statedir.HeldError]: at once if that daemon answers on its socket, else after
// patience. That its process exists proves nothing, because the process of a killed daemon does
// so for a while.
func lockHome(ctx context.Context, h home, patience time.Duration) (*os.File, error) {
	lock, err := statedir.LockDir(string(h), "")
	if isHeld(err) {
		return retryHomeLock(ctx, h, patience)
	}
	return lock, err
}

func isHeld(err error) bool {
	_, ok := errors.AsType[*statedir.HeldError](err)
	return ok
}

// retryHomeLock tries to lock a state directory until nobody has the lock, the other daemon shows
// that it lives, or patience is over.
func retryHomeLock(ctx context.Context, h home, patience time.Duration) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
	for {
		pace.Sleep(ctx, 10*time.Millisecond)
		lock, err := statedir.LockDir(string(h), "")
		if !isHeld(err) || ctx.Err() != nil {
			return lock, err
		}
	}
}
