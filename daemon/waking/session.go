package waking

import (
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// session is what is known about an attached session.
type session struct {
	current  *entry    // the message that was posted and is not taken, or nil
	lastPost time.Time // of current, or of the last one
	waiting  []*entry  // in their order
	bounds   map[boundKey]reachedBound
	asked    map[identity.ID]question // the last one of a peer that woke it or waits to, unless it was answered
	retryAt  time.Time                // no wake before: a turn could not be written

	unwakeable bool    // its program says that nothing can wake it
	refusal    refusal // the last one
}

// question is a question about what the session has delegated.
type question struct {
	id wire.MessageID
	at time.Time // when it woke the session, or began to wait
}

// Attach registers a session, so that it can be woken. It replaces a session of the same name; the new
// one has no message in hand. Nothing wakes an unwakeable session, and the owner is not asked for it.
// When an unwakeable session replaces another one, waiting messages are dropped, except those whose
// senders wait: they wait on until the session is attached anew and can be woken.
func (w *Waker) Attach(agent string, unwakeable bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sessions[agent]
	if s == nil {
		s = &session{bounds: make(map[boundKey]reachedBound), asked: make(map[identity.ID]question)}
		w.sessions[agent] = s
	}
	s.current, s.unwakeable, s.refusal = nil, unwakeable, refusal{}
	if unwakeable {
		s.waiting = slices.DeleteFunc(s.waiting, func(e *entry) bool { return !e.isAwaited() })
		clear(s.asked)
		w.forgetApprovals(agent)
	}
	w.changed.Set()
}

// Detach forgets a session and what waits to wake it.
func (w *Waker) Detach(agent string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sessions, agent)
	w.forgetApprovals(agent)
}

// hasAsked reports whether a question of a peer woke the session a short time ago, or waits to,
// and is not answered. The caller holds mu.
func (s *session) hasAsked(peer identity.ID, now time.Time) bool {
	for id, q := range s.asked {
		if now.Sub(q.at) >= questionPause {
			delete(s.asked, id)
		}
	}
	_, ok := s.asked[peer]
	return ok
}

// forgetQuestion lets the next question of a peer wake the session at once, if the message is the
// last one: it woke nobody. The caller holds mu.
func (s *session) forgetQuestion(m Message) {
	if s.asked[m.Peer.ID].id == m.ID {
		delete(s.asked, m.Peer.ID)
	}
}

// NoteAnswer records that a question of a peer about what a session has delegated was answered, so that the
// next one may wake the session at once.
func (w *Waker) NoteAnswer(agent string, peer identity.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.sessions[agent]; s != nil {
		delete(s.asked, peer)
	}
}

// isFree reports whether the session may be woken at a time.
func (s *session) isFree(now time.Time) bool { return !s.nextPost().After(now) }

// nextPost returns when the session may be woken again, unless its message is taken before.
func (s *session) nextPost() time.Time {
	if s.current != nil {
		return s.lastPost.Add(busyFor)
	}
	if at := s.lastPost.Add(postPause); at.After(s.retryAt) {
		return at
	}
	return s.retryAt
}

// hasDue reports whether a message waits that no bound keeps back.
func (s *session) hasDue(now time.Time) bool {
	return slices.ContainsFunc(s.waiting, func(e *entry) bool { return !e.keptUntil.After(now) })
}

// nextWake returns when the first of the waiting messages may wake the session. ok is false if no message
// waits.
func (s *session) nextWake() (at time.Time, ok bool) {
	for _, e := range s.waiting {
		if !ok || e.keptUntil.Before(at) {
			at, ok = e.keptUntil, true
		}
	}
	if free := s.nextPost(); free.After(at) {
		at = free
	}
	return at, ok
}

// release frees the session of a message, and forgets that it waits. The caller holds mu.
func (w *Waker) release(k messageKey) {
	w.approvals = slices.DeleteFunc(w.approvals, func(a *approval) bool { return a.key() == k })
	s := w.sessions[k.agent]
	if s == nil {
		return
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(e *entry) bool { return e.key() == k })
	if s.current != nil && s.current.key() == k {
		s.current = nil
	}
	w.changed.Set()
}

// heldKey names a message in the inbox, for whichever session it is.
type heldKey struct {
	peer identity.ID
	id   wire.MessageID
}

// ForgetMessage forgets a message that has left the inbox. It wakes no session any more, and an answer
// to it is not applied to a later message with its id.
func (w *Waker) ForgetMessage(peer identity.ID, id wire.MessageID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.declined, heldKey{peer, id})
	for name := range w.sessions {
		w.release(messageKey{name, peer, id})
	}
}

// IsAsked reports whether the owner is asked about a message, for whichever session, or has answered.
func (w *Waker) IsAsked(peer identity.ID, id wire.MessageID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.declined[heldKey{peer, id}] || slices.ContainsFunc(slices.Concat(w.listApprovals(time.Now()), w.listApproved("")), func(a *approval) bool {
		return a.Peer.ID == peer && a.Message.ID == id
	})
}

// Release frees a session of a message that was answered, or whose answer nobody waits for any more.
func (w *Waker) Release(agent string, peer identity.ID, id wire.MessageID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release(messageKey{agent, peer, id})
}

// Watch returns a channel that is closed when the session acknowledges the message. The caller
// calls stop.
func (w *Waker) Watch(agent string, peer identity.ID, id wire.MessageID) (taken <-chan struct{}, stop func()) {
	k := messageKey{agent, peer, id}
	c := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches[k] = c
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.watches[k] == c {
			delete(w.watches, k)
		}
	}
}

// Acknowledge records that a session has acknowledged a message in the inbox.
func (w *Waker) Acknowledge(agent string, peer identity.ID, id wire.MessageID) {
	k := messageKey{agent, peer, id}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.watches[k]; c != nil {
		close(c)
		delete(w.watches, k)
	}
	w.release(k)
}
