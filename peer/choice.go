package peer

import (
	"slices"
	"time"
)

// dropSuperseded takes out the connections of an earlier process of the peer and
// remembers its boot. Callers hold mu and close what is returned.
func (s *peerState) dropSuperseded(c *conn) (old []*conn) {
	s.conns = slices.DeleteFunc(s.conns, func(o *conn) bool {
		if o.hello.Boot == c.hello.Boot {
			return false
		}
		if !slices.ContainsFunc(s.past, func(p pastBoot) bool { return p.boot == o.hello.Boot }) {
			if len(s.past) >= maxPastBoots {
				s.past = slices.Delete(s.past, 0, 1)
			}
			s.past = append(s.past, pastBoot{o.hello.Boot, time.Now()})
		}
		old = append(old, o)
		return true
	})
	return old
}

// chooseCurrent sets current. Callers hold mu.
func (s *peerState) chooseCurrent() {
	for _, c := range slices.Backward(s.conns) {
		if !c.leaving.Load() {
			s.current.Store(c)
			return
		}
	}
	s.current.Store(nil)
}

// updateCurrent is told that a connection takes no new streams.
func (s *peerState) updateCurrent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chooseCurrent()
}
