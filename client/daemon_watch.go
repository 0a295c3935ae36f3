package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/acpd/acpd/internal/pace"
)

// grace is how long, after a call's deadline, a living daemon may take to say that the deadline
// has passed.
const grace = 2 * time.Second

// callWhileDaemonAlive is [Client.callMethod] for a method that the daemon does not answer by
// itself. With Patience it also asks the daemon by whoami whether it lives, and ends the call if
// there is no answer within Patience, but not before the time notBefore has passed. For a call
// with a deadline notBefore is the deadline and grace. Later it asks again, Patience after each
// answer. It blocks until the call and the watch have ended.
func (c *Client) callWhileDaemonAlive(ctx context.Context, notBefore time.Duration, method string, params, result any) error {
	if c.Patience <= 0 {
		return c.callMethod(ctx, method, params, result)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var silent error
	var watch sync.WaitGroup
	watch.Go(func() {
		if silent = c.watchDaemon(ctx, notBefore, method); silent != nil {
			cancel()
		}
	})
	err := c.callMethod(ctx, method, params, result)
	cancel()
	watch.Wait()
	if err != nil && silent != nil {
		return silent
	}
	return err
}

// watchDaemon asks the daemon again and again whether it lives. It returns an error when it
// does not answer within Patience, but not before notBefore has passed, and nil when ctx ends.
func (c *Client) watchDaemon(ctx context.Context, notBefore time.Duration, method string) error {
	patience := min(c.Patience, notBefore)
	for pause := notBefore - patience; ; pause = c.Patience {
		if pace.Sleep(ctx, pause) != nil {
			return nil
		}
		asking, cancel := context.WithTimeout(ctx, patience)
		err := c.callMethod(asking, MethodWhoami, nil, nil)
		cancel()
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return c.newSilenceError(method, patience)
		}
		patience = c.Patience
	}
}
