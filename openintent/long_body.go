package openintent

import (
	"context"
	"sync"
)

// homeQueues lets one call of each other daemon proceed at a time. Daemons are known by their homes.
type homeQueues struct {
	mu    sync.Mutex // guards homes
	homes map[string]*homeQueue
}

// homeQueue has the calls of one daemon that proceed or wait.
type homeQueue struct {
	first chan struct{} // holds one while a call proceeds
	n     int
}

// enterQueue waits until no other call of that home proceeds, or returns the error of ctx. Its
// caller calls leave once.
func (q *homeQueues) enterQueue(ctx context.Context, home string) (leave func(), err error) {
	if home == "" {
		return func() {}, nil
	}
	q.mu.Lock()
	own := q.homes[home]
	if own == nil {
		own = &homeQueue{first: make(chan struct{}, 1)}
		if q.homes == nil {
			q.homes = make(map[string]*homeQueue)
		}
		q.homes[home] = own
	}
	own.n++
	q.mu.Unlock()
	left := func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if own.n--; own.n == 0 {
			delete(q.homes, home)
		}
	}
	if err := acquireSlot(ctx, own.first); err != nil {
		left()
		return nil, err
	}
	return func() {
		<-own.first
		left()
	}, nil
}

// longBody is the length from which the body of an agent of another daemon has to wait for its
// turn. To read it and encode the outcome takes a millisecond or more.
const longBody = 64 << 10

// longBodyTurn is the turn of a call with a long body. Only the goroutine of the call's handler
// uses it.
type longBodyTurn struct {
	queue chan struct{} // the engine's: holds one while a call has the turn
	leave func()
	has   bool // it has the turn
	over  bool
}

// turnKey is the key of a call's turn in its context.
type turnKey struct{}

// AwaitLongBodyTurn waits for the turn of c, if its body is long and its caller another daemon's
// agent. Such calls are computed one at a time, so that one of two processors is left for all
// else. One call of each home waits, so that homes take turns. The turn ends when something is
// written for c, because writes wait for others, or when end is called. While something is read
// for c, another call has the turn.
func (e *Engine) AwaitLongBodyTurn(c *Call, length int) (end func(), err error) {
	if c.Caller.Home == "" || length < longBody {
		return func() {}, nil
	}
	leave, err := e.long.enterQueue(c.Context(), c.Caller.Home)
	if err != nil {
		return nil, err
	}
	t := &longBodyTurn{queue: e.turn, leave: leave}
	if err := t.acquire(c.Context()); err != nil {
		leave()
		return nil, err
	}
	c.ctx = context.WithValue(c.ctx, turnKey{}, t)
	return t.finish, nil
}

// acquire waits until the turn is t's, or returns the error of ctx.
func (t *longBodyTurn) acquire(ctx context.Context) error {
	err := acquireSlot(ctx, t.queue)
	t.has = err == nil
	return err
}

// acquireSlot puts one thing into a channel, or returns the error of ctx.
func acquireSlot(ctx context.Context, c chan<- struct{}) error {
	select {
	case c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release lets another call take the turn.
func (t *longBodyTurn) release() {
	if t.has {
		t.has = false
		<-t.queue
	}
}

// finish ends the turn for good.
func (t *longBodyTurn) finish() {
	if t.release(); !t.over {
		t.over = true
		t.leave()
	}
}

// finishLongBodyTurn ends the turn of ctx, if it has one.
func finishLongBodyTurn(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(*longBodyTurn); ok {
		t.finish()
	}
}
