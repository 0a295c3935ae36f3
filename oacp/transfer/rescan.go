package transfer

import (
	"maps"
	"time"
)

// rescan has everything looked at, offers again what was refused long ago, and
// tells peers how the agents here are.
func (c *Carrier) rescan() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.hints, func(p place, _ names) bool { // of files that never came
		_, coming := c.dirty[p]
		return !coming
	})
	now := time.Now()
	for p := range c.lookAfter {
		if c.spools[p] == nil && c.arrivals[p] == nil {
			delete(c.lookAfter, p)
		}
	}
	for p, s := range c.spools {
		c.lookThrough(p, now)
		for _, e := range s.entries {
			if e.refused && now.After(e.due) {
				c.offer(e)
			}
		}
	}
	for p := range c.arrivals {
		c.lookThrough(p, now)
	}
	for peer, k := range c.couriers {
		if now.Sub(k.greetedAt) >= greetEvery {
			k.signal()
		}
		if k.offerLater {
			c.offerRefused(peer)
		}
	}
}

// lookThrough has a folder looked through, if its turn has come. The caller holds c.mu.
func (c *Carrier) lookThrough(p place, now time.Time) {
	if now.After(c.lookAfter[p]) {
		c.touch(p, nil)
	}
}

// tookToLook puts off the next look through a folder of n names that took long: what is
// heard of it is looked at all the same. Few names take long only where the machine or its
// disk is busy with something else, which is no reason to wait.
func (c *Carrier) tookToLook(p place, n int, took time.Duration, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := lookShare * min(took, time.Duration(n)*lookTime); wait > rescanEvery {
		c.lookAfter[p] = now.Add(wait)
	} else {
		delete(c.lookAfter, p)
	}
}

// places are the folders that are looked at.
func (c *Carrier) places() map[place]struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[place]struct{}, len(c.spools)+len(c.arrivals))
	for p := range c.spools {
		all[p] = struct{}{}
	}
	for p := range c.arrivals {
		all[p] = struct{}{}
	}
	return all
}
