package peer

import (
	"slices"
	"time"
)

// Which of a peer's connections stay, and which one takes new streams. admitConn calls
// removeSupersededConns and findSurplusConn when a connection becomes ready. The choice of the
// current one is made anew then, when a connection ends, and when one begins to leave.

// removeSupersededConns removes the connections whose hello shows another boot than that of c,
// which has just been accepted: they lead to an earlier process of the peer. It remembers their
// boots, and returns the connections for the caller to close. Callers hold mu.
func (state *peerState) removeSupersededConns(c *conn) (old []*conn) {
	state.conns = slices.DeleteFunc(state.conns, func(o *conn) bool {
		if o.peerHello.Boot == c.peerHello.Boot {
			return false
		}
		if !slices.ContainsFunc(state.pastBoots, func(past pastBoot) bool { return past.boot == o.peerHello.Boot }) {
			if len(state.pastBoots) >= maxPastBoots {
				state.pastBoots = slices.Delete(state.pastBoots, 0, 1)
			}
			state.pastBoots = append(state.pastBoots, pastBoot{o.peerHello.Boot, time.Now()})
		}
		old = append(old, o)
		return true
	})
	return old
}

// findSurplusConn returns the connection that has to go because another is ready too; nil:
// none. Of the two daemons only the one with the smaller id decides, so they cannot
// disagree: it keeps the connection that became ready last. Callers hold mu.
func (state *peerState) findSurplusConn() *conn {
	if n := len(state.conns); n > 1 && state.node.self.Compare(state.id) < 0 {
		return state.conns[n-2]
	}
	return nil
}

// selectCurrentConn makes the newest connection that is not leaving the one for new streams; if
// all are, there is none. Callers hold mu.
func (state *peerState) selectCurrentConn() {
	for _, c := range slices.Backward(state.conns) {
		if !c.leaving.Load() {
			state.current.Store(c)
			return
		}
	}
	state.current.Store(nil)
}

// reselectCurrentConn is selectCurrentConn for callers that do not hold mu.
func (state *peerState) reselectCurrentConn() {
	state.mu.Lock()
	defer state.mu.Unlock()
	state.selectCurrentConn()
}
