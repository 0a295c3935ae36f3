package peer

import "context"

// workers runs the handlers of streams, and other short work, in goroutines that stay for what
// comes next: a fresh goroutine would grow its stack anew for every message.
type workers struct {
	work chan func()
	idle chan struct{} // a place for each worker that waits
}

// maxIdleWorkers bounds the workers that wait for work. Further ones end after their work.
const maxIdleWorkers = 64

func newWorkers() workers {
	return workers{work: make(chan func()), idle: make(chan struct{}, maxIdleWorkers)}
}

// startWork hands f to a worker that waits, or calls start to start one.
func (w *workers) startWork(ctx context.Context, f func(), start func(func())) {
	select {
	case w.work <- f:
	default:
		start(func() { w.runWorker(ctx, f) })
	}
}

// runWorker runs f and what startWork hands over later. It returns when ctx ends, or when
// maxIdleWorkers others wait.
func (w *workers) runWorker(ctx context.Context, f func()) {
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
