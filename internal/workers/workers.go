// Package workers runs short work in goroutines that stay for what comes next: a fresh goroutine would grow its
// stack anew each time.
package workers

// maxIdle bounds the goroutines of a pool that wait for work. Further ones end after their work.
const maxIdle = 64

// Pool has goroutines that wait for work.
type Pool struct {
	work chan func()
	idle chan struct{} // a place for each goroutine that waits
	done <-chan struct{}
}

// NewPool returns a pool whose goroutines wait until done is closed.
func NewPool(done <-chan struct{}) Pool {
	return Pool{work: make(chan func()), idle: make(chan struct{}, maxIdle), done: done}
}

// Start runs f in a goroutine that waits. If none does, it calls start to start one.
func (p *Pool) Start(f func(), start func(func())) {
	select {
	case p.work <- f:
	default:
		start(func() { p.run(f) })
	}
}

// run runs f and what Start hands over later. It returns when done is closed, or when maxIdle others wait.
func (p *Pool) run(f func()) {
	for {
		f()
		f = nil // and with it whatever it holds
		select {
		case p.idle <- struct{}{}:
		default:
			return
		}
		select {
		case f = <-p.work:
			<-p.idle
		case <-p.done:
			return
		}
	}
}
