package waking

import (
	"time"

	"github.com/acpd/acpd/identity"
)

// Notice is what subscribers hear: of a bound that kept a session from being woken or a message
// of its own from leaving, or of a message that waits for an approval.
type Notice struct {
	Approval bool // else a bound
	Agent    string
	Peer     identity.ID
	Kind     string
	Reason   string // the bound, or the id of the approval
}

// reachedBound is a bound that kept a message of a peer from waking a session, or one of the
// session from leaving.
type reachedBound struct {
	at, told time.Time
	reason   string
	refused  bool // it was a message of the session; else one waits to wake it
}

// toldKey names what subscribers hear of a peer: what waits for approvals, or else of bounds and of
// programs that refuse.
type toldKey struct {
	peer     identity.ID
	approval bool
}

// toldCount counts the events in the minute that began at since.
type toldCount struct {
	since time.Time
	n     int
}

// mayTell reports whether subscribers hear of it once more, and counts it: a peer that gives up
// what it asks for makes room for the next one, and a program attaches under one name after the
// other. The caller holds mu.
func (w *Waker) mayTell(k toldKey, now time.Time) bool {
	for other, told := range w.told {
		if now.Sub(told.since) >= tellPause {
			delete(w.told, other)
		}
	}
	told, ok := w.told[k]
	if !ok {
		told.since = now
	}
	told.n++
	w.told[k] = told
	return told.n <= maxTold
}

// recordBound records that a bound kept a message back. It returns the notice of it, nil if
// there was one a short time ago. The caller holds mu.
func (w *Waker) recordBound(s *session, e *entry, now time.Time, err error) *Notice {
	for id, b := range s.bounds {
		if now.Sub(b.at) >= noticeFor {
			delete(s.bounds, id)
		}
	}
	b := s.bounds[e.charge.cause]
	told := now.Sub(b.told) < tellPause
	b.at, b.reason, b.refused = now, err.Error(), e.charge.sent
	if !told {
		b.told = now
	}
	s.bounds[e.charge.cause] = b
	if told || !w.mayTell(toldKey{e.charge.cause, false}, now) {
		return nil
	}
	return &Notice{Agent: e.Agent, Peer: e.charge.cause, Kind: e.Kind, Reason: err.Error()}
}

// NoteLoop records that a message of a session to a peer was refused, as its chain is too long;
// err says so. The owner hears of it as of a bound, once a minute at most. It does nothing if agent
// is no session.
func (w *Waker) NoteLoop(agent string, to identity.ID, kind string, err error) {
	now := time.Now()
	w.mu.Lock()
	var notice *Notice
	if s := w.sessions[agent]; s != nil {
		e := &entry{Message: Message{Agent: agent, Kind: kind}, charge: &charge{agent: agent, peer: to, cause: to, at: now, sent: true}}
		notice = w.recordBound(s, e, now, err)
	}
	w.mu.Unlock()
	w.tell(notice)
}

// tell logs a notice and tells subscribers; nil is none.
func (w *Waker) tell(n *Notice) {
	if n == nil {
		return
	}
	if !n.Approval {
		w.Log.Warn("a bound is reached at a session", "agent", n.Agent, "peer", n.Peer.Label(), "kind", n.Kind, "reason", n.Reason)
	}
	w.Tell(*n)
}
