package peer

import "context"

// workers runs the handlers of streams in goroutines that stay for the next one:
// a fresh goroutine would grow its stack anew for every message.
type workers struct {
	work chan func()
	idle chan struct{} // a place for each worker that waits
}

// maxIdleWorkers is how many wait for work at most; more come and go.
const maxIdleWorkers = 64

func newWorkers() workers {
	return workers{work: make(chan func()), idle: make(chan struct{}, maxIdleWorkers)}
}

// run hands f to a worker that waits, or starts one; start is how.
func (w *workers) run(ctx context.Context, f func(), start func(func())) {
	select {
	case w.work <- f:
	default:
		start(func() { w.serve(ctx, f) })
	}
}

// serve is a worker's life: it ends with ctx, or when enough others wait.
func (w *workers) serve(ctx context.Context, f func()) {
	for {
		f()
		f = nil // and with it whatever it holds
		select {
		case w.idle <- struct{}{}:
		default:
			return
		}
		select {
		case f = <-w.work:
			<-w.idle
		case <-ctx.Done():
			return
		}
	}
}
