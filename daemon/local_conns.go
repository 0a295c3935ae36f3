package daemon

import (
	"slices"
	"sync"
)

// localConns are the connections of one local socket, in the order in which they came.
// Where there is no room for another the oldest that nothing happens on makes it:
// its program connects again when it calls, so that one which leaves connections
// open does not keep others out.
type localConns struct {
	most int

	mu   sync.Mutex // guards open
	open []*localConn
}

// add takes s in, unless there is no room.
func (all *localConns) add(s *localConn) bool {
	victim, ok := all.addOrReplace(s)
	if victim != nil {
		victim.conn.Close()
	}
	return ok
}

// addOrReplace is enter but for closing the one that has to go.
func (all *localConns) addOrReplace(s *localConn) (victim *localConn, ok bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.open) >= all.most {
		i := slices.IndexFunc(all.open, (*localConn).isIdle)
		if i < 0 {
			return nil, false
		}
		victim = all.open[i]
		all.open = slices.Delete(all.open, i, i+1)
	}
	all.open = append(all.open, s)
	return victim, true
}

func (all *localConns) remove(s *localConn) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if i := slices.Index(all.open, s); i >= 0 {
		all.open = slices.Delete(all.open, i, i+1)
	}
}

// isIdle reports whether nothing is under way on the connection, and nobody is to be
// reached by it.
func (s *localConn) isIdle() bool {
	return !s.conn.Busy() && s.daemon.agents.AgentOn(s.conn) == nil && !s.daemon.subscribers.has(s.conn)
}
