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
	probeTime   = 5 * time.Second // ping and discover that name no timeout_ms
	receiptTime = 5 * time.Second // notify, result and error
	ackTime     = 30 * time.Second
	joinTime    = 10 * time.Second
)

// grace is what a daemon that lives may take beyond a call's deadline to say that it
// has passed.
const grace = 2 * time.Second

// or returns a timeout_ms, or the deadline that counts where it is 0.
func or(ms uint64, otherwise time.Duration) time.Duration {
	if ms == 0 {
		return otherwise
	}
	return time.Duration(min(ms, uint64(kinds.MaxTaskDeadline.Milliseconds()))) * time.Millisecond
}

// queryTime returns the deadline of a query with that payload.
func queryTime(payload wire.Payload) time.Duration {
	q, err := kinds.Parse[kinds.Query](payload)
	if err != nil {
		return kinds.DefaultQueryDeadline // the daemon refuses it at once
	}
	return min(or(q.DeadlineMS, kinds.DefaultQueryDeadline), kinds.MaxQueryDeadline)
}

// givingTime returns how long giving a task with that payload may take.
func givingTime(payload wire.Payload) time.Duration {
	d, err := kinds.Parse[kinds.Delegate](payload)
	if err != nil || d.DeadlineMS == 0 {
		return ackTime
	}
	return min(or(d.DeadlineMS, ackTime), ackTime)
}

// watched is [Client.call] for what the daemon does not answer by itself. With
// Patience the daemon is asked beside it whether it lives, so that the call ends when
// the daemon stands still: after that time, which is the call's deadline and grace,
// or where it stands still only later within twice Patience. It blocks until both are over.
func (c *Client) watched(ctx context.Context, by time.Duration, method string, params, result any) error {
	if c.Patience <= 0 {
		return c.call(ctx, method, params, result)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var silent error
	var watch sync.WaitGroup
	watch.Go(func() {
		if silent = c.watch(ctx, by, method); silent != nil {
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

// watch returns nil when ctx ends, and an error when the daemon does not answer: no
// sooner than after that time.
func (c *Client) watch(ctx context.Context, by time.Duration, method string) error {
	patience := min(c.Patience, by)
	for pause := by - patience; ; pause = c.Patience {
		if pace.Sleep(ctx, pause) != nil {
			return nil
		}
		asking, cancel := context.WithTimeout(ctx, patience)
		_, err := result[Whoami](asking, c, MethodWhoami, nil)
		cancel()
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return c.silence(method, patience)
		}
		patience = c.Patience
	}
}
