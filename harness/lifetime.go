package harness

import (
	"context"
	"sync"
	"time"
)

// lifetime is how long a session lasts: from newLifetime to end. It knows how many goroutines run for the
// session, so that end can wait for them, and lets one post at a time through.
type lifetime struct {
	ctx     context.Context // ends with the session
	cancel  context.CancelFunc
	ending  sync.Mutex // held to begin another goroutine, and to end ctx
	running sync.WaitGroup
	place   chan time.Time // holds when the last post began while none is under way
}

func newLifetime() *lifetime {
	l := &lifetime{place: make(chan time.Time, 1)}
	l.place <- time.Time{}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// begin registers one more that runs. It reports false, and registers nothing, after end.
func (l *lifetime) begin() bool {
	l.ending.Lock()
	defer l.ending.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.running.Add(1)
	return true
}

// join counts the caller as running until it calls leave. joined ends with ctx, and with the
// session. The error is errClosed.
func (l *lifetime) join(ctx context.Context) (joined context.Context, leave func(), _ error) {
	if !l.begin() {
		return nil, nil, errClosed
	}
	joined, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.ctx, cancel)
	return joined, func() {
		stop()
		cancel()
		l.running.Done()
	}, nil
}

// start runs f in a goroutine, and returns at once. It reports false, and runs nothing, after
// end. f has to return when the session ends.
func (l *lifetime) start(f func()) bool {
	if !l.begin() {
		return false
	}
	go func() {
		defer l.running.Done()
		f()
	}()
	return true
}

// end ends ctx, and waits until nothing runs. It may be called again.
func (l *lifetime) end() {
	l.ending.Lock()
	l.cancel()
	l.ending.Unlock()
	l.running.Wait()
}
