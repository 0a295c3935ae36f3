package waking

import (
	"time"

	"github.com/acpd/acpd/identity"
)

// Notice is what subscribers hear: of a bound that kept a session from being woken, or of a
// message that waits for an approval.
type Notice struct {
	Approval bool // else a bound
	Agent    string
	Peer     identity.ID
	Kind     string
	Reason   string // the bound, or the id of the approval
}

// reachedBound is a bound that kept a message of a peer from waking a session.
type reachedBound struct {
	at, told time.Time
	reason   string
}

// recordBound records that a bound kept a message back. It returns the notice of it, nil if
// there was one a short time ago. The caller holds mu.
func (w *Waker) recordBound(s *session, e *entry, now time.Time, err error) *Notice {
	for id, b := range s.bounds {
		if now.Sub(b.at) >= noticeFor {
			delete(s.bounds, id)
		}
	}
	b := s.bounds[e.turn.cause]
	told := now.Sub(b.told) < tellPause
	b.at, b.reason = now, err.Error()
	if !told {
		b.told = now
	}
	s.bounds[e.turn.cause] = b
	if told {
		return nil
	}
	return &Notice{Agent: e.Agent, Peer: e.turn.cause, Kind: e.Kind, Reason: err.Error()}
}

// tell logs a notice and tells subscribers; nil is none.
func (w *Waker) tell(n *Notice) {
	if n == nil {
		return
	}
	if !n.Approval {
		w.Log.Warn("a session is not woken", "agent", n.Agent, "peer", n.Peer.Label(), "kind", n.Kind, "reason", n.Reason)
	}
	w.Tell(*n)
}
