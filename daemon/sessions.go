package daemon

import (
	"slices"
	"sync"
)

// sessions are the connections of one local socket, in the order in which they came.
// Where there is no room for another the oldest that nothing happens on makes it:
// its program connects again when it calls, so that one which leaves connections
// open does not keep others out.
type sessions struct {
	most int

	mu   sync.Mutex // guards open
	open []*session
}

// enter takes s in, unless there is no room.
func (all *sessions) enter(s *session) bool {
	victim, ok := all.replace(s)
	if victim != nil {
		victim.conn.Close()
	}
	return ok
}

// replace is enter but for closing the one that has to go.
func (all *sessions) replace(s *session) (victim *session, ok bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.open) >= all.most {
		i := slices.IndexFunc(all.open, (*session).idle)
		if i < 0 {
			return nil, false
		}
		victim = all.open[i]
		all.open = slices.Delete(all.open, i, i+1)
	}
	all.open = append(all.open, s)
	return victim, true
}

func (all *sessions) leave(s *session) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if i := slices.Index(all.open, s); i >= 0 {
		all.open = slices.Delete(all.open, i, i+1)
	}
}

// idle reports whether nothing is under way on the connection, and nobody is to be
// reached by it.
func (s *session) idle() bool {
	return !s.conn.Busy() && s.daemon.agents.AgentOn(s.conn) == nil && !s.daemon.subscribers.has(s.conn)
}
