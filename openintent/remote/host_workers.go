package remote

import (
	"context"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
)

// hostWorkers runs workers for hosts, each in a goroutine of its own, so that no host waits for
// another. A host has one worker at a time.
type hostWorkers struct {
	work func(host identity.ID)

	working sync.WaitGroup
	mu      sync.Mutex           // guards again
	again   map[identity.ID]bool // by host that has a worker: whether there is more to do
}

// runHostWorkers calls work for each host that hosts returns, on time (once in every) and whenever
// wake is set. The argument of hosts says which of both it is. It returns when ctx has ended and all workers
// have returned.
func runHostWorkers(ctx context.Context, every time.Duration, wake pace.Signal, hosts func(onTime bool) []identity.ID, work func(host identity.ID)) {
	workers := &hostWorkers{work: work, again: make(map[identity.ID]bool)}
	defer workers.working.Wait()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		onTime := false
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-tick.C:
			onTime = true
		}
		for _, host := range hosts(onTime) {
			workers.startWorker(host)
		}
	}
}

// startWorker starts a worker for a host. A worker that the host has already works once more. It
// does not block.
func (w *hostWorkers) startWorker(host identity.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, busy := w.again[host]; busy {
		w.again[host] = true
		return
	}
	w.again[host] = false
	w.working.Go(func() {
		for more := true; more; {
			w.work(host)
			w.mu.Lock()
			if more = w.again[host]; more {
				w.again[host] = false
			} else {
				delete(w.again, host)
			}
			w.mu.Unlock()
		}
	})
}
