package waking

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Message is a message for a session.
type Message struct {
	Agent      string // the session
	Peer       identity.Peer
	Kind       string
	ID         wire.MessageID
	Delegation wire.MessageID // the delegation of the session that the message ends or asks about, or zero

	// If the owner is to be asked about it, else zero.
	Text   string            // the beginning of what it says
	Digest [sha256.Size]byte // of all that it says
	Again  bool              // it was held before the daemon's start, so an answer to it is forgotten
}

// isQuestion reports whether the message is a question about what the session has delegated.
func (m Message) isQuestion() bool { return m.Kind == kinds.KindQuery && !m.Delegation.IsZero() }

// isAwaited reports whether the sender of the message waits for what the session does.
func (m Message) isAwaited() bool { return m.Kind == kinds.KindQuery || m.Kind == kinds.KindDelegate }

// isAskedAnew reports whether the message, if it comes again under its id, is another request.
func (m Message) isAskedAnew() bool { return m.Kind == kinds.KindQuery && m.Delegation.IsZero() }

func (m Message) key() messageKey { return messageKey{m.Agent, m.Peer.ID, m.ID} }

// messageKey names a message for a session.
type messageKey struct {
	agent string
	peer  identity.ID
	id    wire.MessageID
}

// Post wakes a session for a message, and returns the outcome.
type Post func(context.Context, client.WakeGrant) Outcome

// Outcome is the outcome of a wake.
type Outcome struct {
	Posted  bool   // the session's program was given a pointer, or may have been
	Refused string // if it was not: why the program takes no message now, for the owner; "" if it takes others

	NeedsPerson bool // a person has to be there, or to allow it
}

// entry is a message that wakes a session, or is to.
type entry struct {
	Message
	charge   *charge
	earlier  *charge // of the same query, if it is asked anew, or nil
	grant    client.WakeGrant
	post     Post
	refuse   func()    // is called if the owner says no; may be nil
	unsaved  bool      // its turn could not be written once
	approval *approval // the owner's approval, or nil

	// For an approved message that a bound keeps back:
	keptBy    error // the bound
	keptUntil time.Time
}

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
