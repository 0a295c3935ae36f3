package jsonrpc

import (
	"context"
	"slices"
	"sync"
	"time"
)

// requestContext is the context of a request's handler. It ends when the caller gives up, when the time
// of [Request.CancelAfter] is over, when the connection ends, and when the handler has returned.
//
// It is part of its request and not a child of the connection's context: package context keeps
// children in a map and gives each its own memory, and every query would pay for both.
// Its error is its cause too.
type requestContext struct {
	values context.Context // of the connection; it does not end

	mu    sync.Mutex
	done  chan struct{} // closed at the end; nil: nobody has asked for it
	err   error         // nil until the end
	calls []*func()     // what AfterFunc is to call
}

// Deadline always returns false: see [Request.CancelAfter].
func (c *requestContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value returns the value of the context with which the connection runs.
func (c *requestContext) Value(key any) any { return c.values.Value(key) }

// Done returns a channel that is closed when the context ends.
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err returns nil, or why the context has ended.
func (c *requestContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// AfterFunc calls f in a goroutine of its own when the context has ended, unless stop is called
// before, which returns whether it was. [context.AfterFunc] and contexts that are derived from this
// one use it.
func (c *requestContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	call := &f
	c.calls = append(c.calls, call)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.calls, call)
		if i < 0 {
			return false
		}
		c.calls = slices.Delete(c.calls, i, i+1)
		return true
	}
}

// end ends the context with an error, unless it has ended.
func (c *requestContext) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	for _, call := range c.calls {
		go (*call)()
	}
	c.calls = nil
}
