package remote

import (
	"sync"

	"github.com/acpd/acpd/identity"
)

// hostWorkers work for hosts, each in a goroutine of its own, so that no host waits for
// another. For one host there is one at a time.
type hostWorkers struct {
	work func(host identity.ID)

	working sync.WaitGroup
	mu      sync.Mutex           // guards again
	again   map[identity.ID]bool // by host that somebody works for: whether something came meanwhile
}

func newHostWorkers(work func(host identity.ID)) *hostWorkers {
	return &hostWorkers{work: work, again: make(map[identity.ID]bool)}
}

// start has somebody work for a host: now, or once more where somebody works for it
// already. It does not block.
func (c *hostWorkers) start(host identity.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, busy := c.again[host]; busy {
		c.again[host] = true
		return
	}
	c.again[host] = false
	c.working.Go(func() {
		for more := true; more; more = c.hasMore(host) {
			c.work(host)
		}
	})
}

// hasMore reports whether there is more to do for a host. If not, nobody works for it any
// more.
func (c *hostWorkers) hasMore(host identity.ID) (more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if more = c.again[host]; more {
		c.again[host] = false
	} else {
		delete(c.again, host)
	}
	return more
}

// waitAll waits until all are back.
func (c *hostWorkers) waitAll() { c.working.Wait() }
