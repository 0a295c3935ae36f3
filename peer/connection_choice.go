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
// disagree: it keeps the one that selectCurrentConn has chosen. Callers hold mu.
func (state *peerState) findSurplusConn() *conn {
	current := state.current.Load()
	if current == nil || state.node.self.Compare(state.id) > 0 {
		return nil
	}
	for _, c := range slices.Backward(state.conns) {
		if c != current && !c.leaving.Load() {
			return c
		}
	}
	return nil
}

// proveBetterConn proves the current connection, which has the better path, because a further one
// became ready on a lesser: the peer dials only when it has lost the one before. Then it has the
// one or the other go.
func (state *peerState) proveBetterConn(current *conn) {
	p := current.joinOrStartProof()
	if p == nil {
		return
	}
	<-p.over
	if !p.alive {
		return // and closed
	}
	state.mu.Lock()
	surplus := state.findSurplusConn()
	state.mu.Unlock()
	if surplus != nil {
		surplus.sendGoaway(closeReplaced)
	}
}

// removeVictim removes the connection that goes because there are too many: of those on the least
// path the oldest, and never the newest of all. It returns it for the caller to close. Callers
// hold mu.
func (state *peerState) removeVictim() *conn {
	victim := 0
	for i, c := range state.conns[:len(state.conns)-1] {
		if c.endpoint.path.rank() > state.conns[victim].endpoint.path.rank() {
			victim = i
		}
	}
	c := state.conns[victim]
	state.conns = slices.Delete(state.conns, victim, victim+1)
	return c
}

// selectCurrentConn selects the connection for new streams among those that are not leaving: on the best path,
// the newest one. It selects nothing if all are leaving. It queues an event if the path or the address
// has changed: callers hold mu, and call emitQueuedEvents after it.
func (state *peerState) selectCurrentConn() {
	var best *conn
	for _, c := range slices.Backward(state.conns) {
		if !c.leaving.Load() && (best == nil || c.endpoint.path.rank() < best.endpoint.path.rank()) {
			best = c
		}
	}
	state.current.Store(best)
	if best != nil && (best.endpoint.path != state.lastPath || best.remoteAddr() != state.lastAddr) {
		state.lastAddr, state.lastPath = best.remoteAddr(), best.endpoint.path
		state.queueEvent(Event{Type: EventMoved, Name: best.claim, Addr: state.lastAddr, Detail: string(state.lastPath)})
	}
}

// reselectCurrentConn is selectCurrentConn for callers that do not hold mu.
func (state *peerState) reselectCurrentConn() {
	state.mu.Lock()
	state.selectCurrentConn()
	state.mu.Unlock()
	state.emitQueuedEvents()
}
