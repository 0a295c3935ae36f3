package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// How long a daemon takes at most for what it asks a peer, as docs/protocol.md says.
const (
	probeTimeout   = 5 * time.Second // ping and discover that name no timeout_ms
	receiptTimeout = 5 * time.Second // notify, result and error
	ackTimeout     = 30 * time.Second
	joinTimeout    = 10 * time.Second
)

// grace is what a daemon that lives may take beyond a call's deadline to say that it
// has passed.
const grace = 2 * time.Second

// timeoutOr returns a timeout_ms as a duration, or otherwise if it is 0.
func timeoutOr(ms uint64, otherwise time.Duration) time.Duration {
	if ms == 0 {
		return otherwise
	}
	return time.Duration(min(ms, uint64(kinds.MaxTaskDeadline.Milliseconds()))) * time.Millisecond
}

// queryTimeout returns the deadline of a query with that payload.
func queryTimeout(payload wire.Payload) time.Duration {
	q, err := kinds.Parse[kinds.Query](payload)
	if err != nil {
		return kinds.DefaultQueryDeadline // the daemon refuses it at once
	}
	return min(timeoutOr(q.DeadlineMS, kinds.DefaultQueryDeadline), kinds.MaxQueryDeadline)
}

// delegateTimeout returns how long giving a task with that payload may take.
func delegateTimeout(payload wire.Payload) time.Duration {
	d, err := kinds.Parse[kinds.Delegate](payload)
	if err != nil || d.DeadlineMS == 0 {
		return ackTimeout
	}
	return min(timeoutOr(d.DeadlineMS, ackTimeout), ackTimeout)
}

// callWatched is [Client.call] for what the daemon does not answer by itself. With
// Patience it also asks the daemon whether it lives, and ends the call if the daemon
// stands still: at first after by, the deadline of the call and grace, and later within
// twice Patience. It blocks until both the call and the watch have ended.
func (c *Client) callWatched(ctx context.Context, by time.Duration, method string, params, result any) error {
	if c.Patience <= 0 {
		return c.call(ctx, method, params, result)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var silent error
	var watch sync.WaitGroup
	watch.Go(func() {
		if silent = c.watchDaemon(ctx, by, method); silent != nil {
			cancel()
		}
	})
	err := c.call(ctx, method, params, result)
	cancel()
	watch.Wait()
	if err != nil && silent != nil {
		return silent
	}
	return err
}

// watchDaemon returns nil when ctx ends, and an error when the daemon does not answer,
// but not before by has passed.
func (c *Client) watchDaemon(ctx context.Context, by time.Duration, method string) error {
	patience := min(c.Patience, by)
	for pause := by - patience; ; pause = c.Patience {
		if pace.Sleep(ctx, pause) != nil {
			return nil
		}
		asking, cancel := context.WithTimeout(ctx, patience)
		_, err := callNew[Whoami](asking, c, MethodWhoami, nil)
		cancel()
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return c.silenceError(method, patience)
		}
		patience = c.Patience
	}
}
