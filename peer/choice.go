package peer

import (
	"slices"
	"time"
)

// supersede takes out the connections of an earlier process of the peer and
// remembers its boot. Callers hold mu and close what is returned.
func (r *remote) supersede(c *conn) (old []*conn) {
	r.conns = slices.DeleteFunc(r.conns, func(o *conn) bool {
		if o.hello.Boot == c.hello.Boot {
			return false
		}
		if !slices.ContainsFunc(r.past, func(p pastBoot) bool { return p.boot == o.hello.Boot }) {
			if len(r.past) >= maxPastBoots {
				r.past = slices.Delete(r.past, 0, 1)
			}
			r.past = append(r.past, pastBoot{o.hello.Boot, time.Now()})
		}
		old = append(old, o)
		return true
	})
	return old
}

// choose sets current. Callers hold mu.
func (r *remote) choose() {
	for _, c := range slices.Backward(r.conns) {
		if !c.leaving.Load() {
			r.current.Store(c)
			return
		}
	}
	r.current.Store(nil)
}

// leave is told that a connection takes no new streams.
func (r *remote) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.choose()
}
