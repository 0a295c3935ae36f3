package openintent

import "context"

// Call is what one request asks of the engine: who asks, and what the daemon of the caller and
// other hosts are charged for until the caller has its answer. One goroutine uses it.
type Call struct {
	e       *Engine
	ctx     context.Context
	who     Caller
	size    int  // bytes that it may have written, beside headRoom
	removes bool // it removes something, for which there is always room on the disk
	held    int  // bytes of the answer that the caller's daemon is charged for
	told    toldBytes
}

// Begin begins a call, for as long as ctx lasts. [Call.End] ends it.
func (e *Engine) Begin(ctx context.Context) *Call { return &Call{e: e, ctx: ctx} }

// Context returns the context of the call.
func (c *Call) Context() context.Context { return c.ctx }

// End gives back all that was charged for the call.
func (c *Call) End() {
	c.give(c.held)
	c.letGo()
}
