package peer

import (
	"slices"
	"time"
)

// removeSupersededConns removes the connections to an earlier process of the peer, remembers
// its boot, and returns them for the caller to close. Callers hold mu.
func (s *peerState) removeSupersededConns(c *conn) (old []*conn) {
	s.conns = slices.DeleteFunc(s.conns, func(o *conn) bool {
		if o.peerHello.Boot == c.peerHello.Boot {
			return false
		}
		if !slices.ContainsFunc(s.pastBoots, func(past pastBoot) bool { return past.boot == o.peerHello.Boot }) {
			if len(s.pastBoots) >= maxPastBoots {
				s.pastBoots = slices.Delete(s.pastBoots, 0, 1)
			}
			s.pastBoots = append(s.pastBoots, pastBoot{o.peerHello.Boot, time.Now()})
		}
		old = append(old, o)
		return true
	})
	return old
}

// findSurplusConn returns the connection that has to go because another is ready too; nil:
// none. Of the two daemons only the one with the smaller id decides, so they cannot
// disagree: it keeps the connection that became ready last. Callers hold mu.
func (s *peerState) findSurplusConn() *conn {
	if n := len(s.conns); n > 1 && s.node.self.Compare(s.id) < 0 {
		return s.conns[n-2]
	}
	return nil
}

// selectCurrentConn makes the newest connection without a goaway the one for new streams.
// Callers hold mu.
func (s *peerState) selectCurrentConn() {
	for _, c := range slices.Backward(s.conns) {
		if !c.openingStopped.Load() {
			s.current.Store(c)
			return
		}
	}
	s.current.Store(nil)
}

// reselectCurrentConn calls selectCurrentConn after a connection has stopped taking new streams.
func (s *peerState) reselectCurrentConn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.selectCurrentConn()
}
