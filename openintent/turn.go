package openintent

import (
	"context"
	"sync"

	"github.com/acpd/acpd/store"
)

// queues lets one at a time of each other daemon go on. Daemons are known by their homes.
type queues struct {
	mu    sync.Mutex // guards homes
	homes map[string]*queue
}

// queue is those of one daemon that go on, or wait to do so.
type queue struct {
	first chan struct{} // holds one while one goes on
	n     int
}

// enter waits until no other of that home goes on, or ctx ends. Callers call leave, once.
func (q *queues) enter(ctx context.Context, home string) (leave func(), err error) {
	if home == "" {
		return func() {}, nil
	}
	q.mu.Lock()
	own := q.homes[home]
	if own == nil {
		own = &queue{first: make(chan struct{}, 1)}
		if q.homes == nil {
			q.homes = make(map[string]*queue)
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
	select {
	case own.first <- struct{}{}:
		return func() {
			<-own.first
			left()
		}, nil
	case <-ctx.Done():
		left()
		return nil, ctx.Err()
	}
}

// longBody is how large a body is for which an agent of another daemon waits for its turn:
// to read it and to make of it what is written takes a millisecond or more.
const longBody = 64 << 10

// turn is that of a call with a long body, in its handler's goroutine alone.
type turn struct {
	queue chan struct{} // the engine's: holds one for who has the turn
	leave func()
	has   bool // it has the turn
	over  bool
}

// turnKey is what a context holds the turn of its call under.
type turnKey struct{}

// AwaitTurn waits until it is the turn of c, if its body is long and its caller another daemon's agent.
// Such calls are computed one at a time, so that on two processors one is left for all else;
// of each home one waits, so homes take turns. The turn ends when something is written for c,
// which waits for others, or when end is called. While something is read for c it is another's.
func (e *Engine) AwaitTurn(c *Call, length int) (end func(), err error) {
	if c.Caller.Home == "" || length < longBody {
		return func() {}, nil
	}
	leave, err := e.long.enter(c.Context(), c.Caller.Home)
	if err != nil {
		return nil, err
	}
	t := &turn{queue: e.turn, leave: leave}
	if err := t.take(c.Context()); err != nil {
		leave()
		return nil, err
	}
	c.ctx = context.WithValue(c.ctx, turnKey{}, t)
	return t.end, nil
}

func (t *turn) take(ctx context.Context) error {
	select {
	case t.queue <- struct{}{}:
		t.has = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// give lets another take the turn.
func (t *turn) give() {
	if t.has {
		t.has = false
		<-t.queue
	}
}

// end ends the turn, if it has not ended.
func (t *turn) end() {
	if t.give(); !t.over {
		t.over = true
		t.leave()
	}
}

// endTurn ends the turn of ctx, if it has one.
func endTurn(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok {
		t.end()
	}
}

// readBeside reads the store, for which others of the same daemon may have to be waited for,
// while the turn of ctx, if it has one, is another's.
func (e *Engine) readBeside(ctx context.Context, fn func(*store.Tx) error) error {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok || !t.has {
		return e.db.Read(ctx, fn)
	}
	t.give()
	if err := e.db.Read(ctx, fn); err != nil {
		return err
	}
	return t.take(ctx)
}
