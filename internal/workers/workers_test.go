package workers

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// A few goroutines stay for the next work, and end when nothing more comes.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, release := make(chan struct{}), make(chan struct{})
		p := NewPool(done)
		var all sync.WaitGroup
		var started, ended atomic.Int32
		burst := func(n, fresh int) {
			t.Helper()
			before := started.Load()
			for range n {
				p.Start(func() { <-release; ended.Add(1) }, func(f func()) { started.Add(1); all.Go(f) })
			}
			for range n {
				release <- struct{}{}
			}
			synctest.Wait()
			if got := int(started.Load() - before); got != fresh {
				t.Errorf("%d goroutines were started for %d, want %d", got, n, fresh)
			}
		}
		burst(3*maxIdle, 3*maxIdle)
		burst(maxIdle/2, 0)
		burst(2*maxIdle, maxIdle)
		if got := len(p.idle); got != maxIdle || ended.Load() != 3*maxIdle+maxIdle/2+2*maxIdle {
			t.Errorf("%d wait, %d are done", got, ended.Load())
		}
		close(done)
		all.Wait()
	})
}
