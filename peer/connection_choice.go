package peer

import (
	"slices"
	"time"
)

// dropSuperseded removes the connections to an earlier process of the peer, remembers
// its boot, and returns them for the caller to close. Callers hold mu.
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

// chooseSurplus returns the connection that has to go because another is ready too; nil:
// none. Of the two daemons only the one with the smaller id decides, so they cannot
// disagree: it keeps the connection that became ready last. Callers hold mu.
func (s *peerState) chooseSurplus() *conn {
	if n := len(s.conns); n > 1 && s.node.self.Compare(s.id) < 0 {
		return s.conns[n-2]
	}
	return nil
}

// chooseCurrent makes the newest connection without a goaway the one for new streams.
// Callers hold mu.
func (s *peerState) chooseCurrent() {
	for _, c := range slices.Backward(s.conns) {
		if !c.leaving.Load() {
			s.current.Store(c)
			return
		}
	}
	s.current.Store(nil)
}

// updateCurrent chooses anew, after a connection has stopped to take new streams.
func (s *peerState) updateCurrent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chooseCurrent()
}
