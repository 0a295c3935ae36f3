package waking

import (
	"context"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// Request asks whether a message may wake its session. It returns the grant if it may at once:
// the caller posts it and calls Finish. Otherwise it returns nil. Then the message waits for the
// session's next tool call, and post is called later if it may wake the session after all: when
// an earlier message was taken, or the owner has approved. Request blocks until the turn is on
// disk.
func (w *Waker) Request(ctx context.Context, m Message, post Post) *client.WakeGrant {
	if e := w.admit(m, post, nil, true); e != nil && w.saveTurn(ctx, e) {
		return &e.grant
	}
	return nil
}

// Enqueue lets a message wake its session as soon as the rules and bounds let it, and returns at once.
// [Waker.Run] calls post then, unless the message is released before. If the owner says no to the
// message, refuse is called, once at most and not under a lock. refuse may be nil.
func (w *Waker) Enqueue(m Message, post Post, refuse func()) { w.admit(m, post, refuse, false) }

// admit begins a message, if atOnce and it may now. Then it returns its entry. Else it lets the
// message wait, if the rules and the bounds allow that.
func (w *Waker) admit(m Message, post Post, refuse func(), atOnce bool) (begun *entry) {
	now := time.Now()
	d := w.decideByRules(m)
	if !d.allowed && !d.ask || !w.Rules.MutedUntil(m.Agent, now).IsZero() {
		return nil
	}
	w.mu.Lock()
	s := w.sessions[m.Agent]
	if s != nil {
		w.dropOtherContent(s, m)
	}
	if s == nil || !w.takes(s, m, d, now) {
		w.mu.Unlock()
		return nil
	}
	e := &entry{Message: m, charge: &charge{agent: m.Agent, peer: m.Peer.ID, message: m.ID, cause: w.findCause(m), at: now}, grant: client.WakeGrant{Unattended: d.unattended}, post: post, refuse: refuse}
	var notice *Notice
	switch {
	case !d.allowed:
		notice = w.addApproval(s, e, now)
	case atOnce && !s.unwakeable && s.isFree(now) && !s.hasDue(now):
		var ok bool
		if ok, notice = w.begin(s, e, now); ok {
			begun = e
		}
	default:
		notice = w.addWaiting(s, e, now)
	}
	if m.isQuestion() && w.isWaiting(m.key()) {
		s.asked[m.Peer.ID] = question{m.ID, now}
	}
	w.mu.Unlock()
	w.tell(notice)
	return begun
}

// takes reports whether a session is to be woken for a message, now or when the bounds let it. A session
// that cannot be woken yet takes only messages whose senders wait, as far as there is room. A message
// that has woken the session does not wake it again, but a query that comes again is asked anew. The caller
// holds mu.
func (w *Waker) takes(s *session, m Message, d decision, now time.Time) bool {
	switch {
	case s.unwakeable && !(d.allowed && m.isAwaited() && w.checkWaiting(s, m) == nil):
		return false
	case !d.allowed && w.declined[heldKey{m.Peer.ID, m.ID}]:
		return false
	case w.isWaiting(m.key()), m.isQuestion() && s.hasAsked(m.Peer.ID, now):
		return false
	}
	return m.isAskedAnew() || w.findCharge(m.key(), false) == nil
}

// dropOtherContent drops a waiting message with the id of m and other content: an answer to the one does
// not answer the other. The caller holds mu.
func (w *Waker) dropOtherContent(s *session, m Message) {
	isOther := func(e *entry) bool { return e.key() == m.key() && e.Digest != m.Digest }
	w.approvals = slices.DeleteFunc(w.approvals, func(a *approval) bool { return isOther(a.entry) })
	s.waiting = slices.DeleteFunc(s.waiting, isOther)
}

// findCause returns the peer that is charged for a message's turn. For the result or the error of a
// request that the session sent in a turn that a peer had woken, it is that peer. Otherwise it is the
// sender. A question is charged to its sender, because there can be many about one delegation. The caller
// holds mu.
func (w *Waker) findCause(m Message) identity.ID {
	if !m.Delegation.IsZero() && !m.isQuestion() {
		if asked := w.findCharge(messageKey{m.Agent, m.Peer.ID, m.Delegation}, true); asked != nil {
			return asked.cause
		}
	}
	return m.Peer.ID
}

// begin takes the session for a message, unless that is over a bound. Then an approved message waits
// on, and another one is dropped: it waits for the session's next tool call. The caller holds mu.
func (w *Waker) begin(s *session, e *entry, now time.Time) (begun bool, notice *Notice) {
	e.charge.at = now
	if err := w.checkCharge(e.charge); err != nil {
		if e.approval != nil {
			e.keptBy, e.keptUntil = err, w.findRoom(e.charge)
			s.waiting = append(s.waiting, e)
		} else {
			s.forgetQuestion(e.Message)
		}
		return false, w.recordBound(s, e, now, err)
	}
	s.current, s.lastPost = e, now
	if earlier := w.findCharge(e.key(), false); earlier != nil {
		earlier.message = wire.NewMessageID() // it stays charged, in a row of its own
		e.earlier = earlier
	}
	w.addCharge(e.charge)
	return true, nil
}

// saveTurn writes the turn that has begun, also if the sender gives up, and reports whether the turn is
// on disk. If it is not, the session is free again, and the message is tried again after savePause.
func (w *Waker) saveTurn(ctx context.Context, e *entry) bool {
	err := w.DB.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error {
		if e.earlier != nil {
			if err := insertCharge(tx, e.earlier, e.charge.at.Add(-day)); err != nil {
				return err
			}
		}
		return insertCharge(tx, e.charge, e.charge.at.Add(-day))
	})
	if err == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !e.unsaved {
		e.unsaved = true
		w.Log.Warn("a session is not woken yet: the turn cannot be counted, and is tried again", "agent", e.Agent, "err", err)
	}
	w.removeCharge(e.charge)
	if s := w.sessions[e.Agent]; s != nil && s.current == e { // else it was taken or given up meanwhile
		s.current, s.retryAt = nil, time.Now().Add(savePause)
		s.waiting = slices.Insert(s.waiting, 0, e)
		w.changed.Set()
	}
	return false
}

// Finish records the outcome of a message with a grant. If it was not posted, the turn is not charged.
func (w *Waker) Finish(ctx context.Context, m Message, o Outcome) {
	w.tell(w.noteRefusal(m, o))
	if o.Posted {
		return
	}
	w.mu.Lock()
	c := w.findCharge(m.key(), false)
	if c != nil {
		w.removeCharge(c)
	}
	if s := w.sessions[m.Agent]; s != nil {
		s.forgetQuestion(m)
	}
	w.release(m.key())
	w.mu.Unlock()
	if c != nil {
		if err := w.DB.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return deleteCharge(tx, c) }); err != nil {
			w.Log.Debug("a turn that did not begin is charged until tomorrow if acpd is started again", "agent", m.Agent, "err", err)
		}
	}
}
