// Package pace has what loops wait for: a signal to look again, a bell that wakes all, and time to pass.
package pace

import (
	"context"
	"time"
)

// Signal means "look again": a channel of capacity one. Its receiver looks at
// everything that has changed, so a second Set before that adds nothing.
type Signal chan struct{}

// NewSignal returns a signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set makes one receiver look again, now or when it receives next. It never blocks.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Gather waits for a signal and then for d, so that one look serves all that comes meanwhile. It
// returns ctx's error when that ends.
func Gather(ctx context.Context, signal <-chan struct{}, d time.Duration) error {
	select {
	case <-signal:
		return Sleep(ctx, d)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sleep waits for d, or returns ctx's error when that ends.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err()
}
