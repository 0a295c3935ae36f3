package waking

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
)

// Notice is an event for subscribers: a bound kept a session from being woken or a message of its own
// from leaving, or a message waits for an approval.
type Notice struct {
	Approval bool // else a bound
	Agent    string
	Peer     identity.ID
	Kind     string
	Reason   string // the bound, or the id of the approval

	NeedsPerson bool      // the session was not woken, or will not be, until a person does something there
	Until       time.Time // when the peer's share of the bound has room again, or zero if that is not known
}

// boundKey names a bound that was reached at a session.
type boundKey struct {
	peer identity.ID // whose share is used up
	sent bool        // a message of the session was kept from leaving; else one of the peer's from waking it
}

// reachedBound is what is known about such a bound.
type reachedBound struct {
	at     time.Time
	reason string
	until  time.Time // when the share that is used up has room again; zero for another bound
}

// isOver reports whether the owner no longer needs to know about the bound.
func (b *reachedBound) isOver(now time.Time) bool {
	if b.until.IsZero() {
		return now.Sub(b.at) >= noticeFor
	}
	return !now.Before(b.until)
}

// toldEvent is an event that subscribers got.
type toldEvent struct {
	peer  identity.ID
	agent string
	about subject
	at    time.Time
}

// subject is what an event is about.
type subject int

const (
	aboutApproval subject = iota
	aboutWakes            // a bound kept a message from waking a session
	aboutSends            // a bound kept a message of a session from leaving
	aboutRefusal          // a session's program refused to be woken, or waits for its user
)

// mayTell reports whether subscribers get an event, and records that they do. In tellPause they get one about a
// bound or refusal at a session for each peer. Of all sessions together they get maxTold of these about a peer, and
// as many about its approvals. No other bound limits events: a peer that gives up what it asked for makes room for
// the next request, and a program can attach under one name after the other. The caller holds mu.
func (w *Waker) mayTell(e toldEvent) bool {
	w.told = slices.DeleteFunc(w.told, func(t toldEvent) bool { return e.at.Sub(t.at) >= tellPause })
	ofPeer := 0
	for _, t := range w.told {
		if t.peer != e.peer || (t.about == aboutApproval) != (e.about == aboutApproval) {
			continue
		}
		if ofPeer++; e.about != aboutApproval && t.agent == e.agent && t.about == e.about {
			return false
		}
	}
	if ofPeer >= maxTold {
		return false
	}
	w.told = append(w.told, e)
	return true
}

// recordBound records that a bound kept a message back. It returns the notice of it, or nil if
// there was one a short time ago. The caller holds mu.
func (w *Waker) recordBound(s *session, e *entry, now time.Time, err error) *Notice {
	maps.DeleteFunc(s.bounds, func(_ boundKey, b reachedBound) bool { return b.isOver(now) })
	key := boundKey{e.charge.cause, e.charge.sent}
	b := s.bounds[key]
	b.at = now
	if _, usedUp := errors.AsType[*usedUpError](err); usedUp && b.until.IsZero() {
		b.reason, b.until = ownwords.Of(err), w.findRoom(e.charge)
	} else if b.until.IsZero() { // a share that is used up says more
		b.reason = ownwords.Of(err)
	}
	s.bounds[key] = b
	about := aboutWakes
	if key.sent {
		about = aboutSends
	}
	if !w.mayTell(toldEvent{key.peer, e.Agent, about, now}) {
		return nil
	}
	return &Notice{Agent: e.Agent, Peer: e.charge.cause, Kind: e.Kind, Reason: b.reason, Until: b.until}
}

// RecordUsedUp records that the share of a peer was used up when a message came for a session, and
// notifies the owner. It returns when there is room again, or the zero time if there is room now.
func (w *Waker) RecordUsedUp(m Message) (room time.Time) {
	now := time.Now()
	w.mu.Lock()
	var notice *Notice
	if s := w.sessions[m.Agent]; s != nil {
		e := &entry{Message: m, charge: &charge{agent: m.Agent, cause: m.Peer.ID, at: now}}
		if err := w.checkCharge(e.charge); err != nil {
			notice = w.recordBound(s, e, now, err)
			room = s.bounds[boundKey{peer: m.Peer.ID}].until
		}
	}
	w.mu.Unlock()
	w.tell(notice)
	return room
}

// TellApproval sends subscribers a notice of what waits for an approval elsewhere, if mayTell allows it.
func (w *Waker) TellApproval(n Notice) {
	w.mu.Lock()
	may := w.mayTell(toldEvent{n.Peer, n.Agent, aboutApproval, time.Now()})
	w.mu.Unlock()
	if may {
		w.tell(&n)
	}
}

// ReadSettings applies changed settings to the messages that wait, and to the bounds that the owner sees.
func (w *Waker) ReadSettings() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		maps.DeleteFunc(s.bounds, func(_ boundKey, b reachedBound) bool { return !b.until.IsZero() })
		for _, e := range s.waiting {
			e.keptBy, e.keptUntil = nil, time.Time{}
		}
	}
	w.changed.Set()
}

// NoteLoop records that a message of a session to a peer was refused because its chain is too long;
// err is that refusal. The owner is notified as for a bound, once a minute at most. NoteLoop does nothing
// if agent is not a session.
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

// tell logs a notice and sends it to subscribers. It ignores nil.
func (w *Waker) tell(n *Notice) {
	if n == nil {
		return
	}
	if !n.Approval {
		w.Log.Warn("a bound is reached at a session", "agent", n.Agent, "peer", n.Peer.Label(), "kind", n.Kind, "reason", n.Reason)
	}
	w.Tell(*n)
}
