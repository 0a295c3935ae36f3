package waking

import (
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
)

// checkWaiting returns an error, a sentence for the owner, if no message of the peer may wait
// any more. The caller holds mu.
func (w *Waker) checkWaiting(s *session, m Message) error {
	held := make(map[identity.ID]int)
	for _, e := range s.waiting {
		held[e.Peer.ID]++
	}
	peers := w.ListWakers(m.Agent)
	peers[m.Peer.ID] = true
	if !hasShare(maxWaiting, len(peers), held, m.Peer.ID) {
		return ownwords.Errorf("budget: messages that wait to wake %s: %d, half of them by one peer", m.Agent, maxWaiting)
	}
	return nil
}

// addWaiting lets a message wait for its turn, if there is room. The caller holds mu.
func (w *Waker) addWaiting(s *session, e *entry, now time.Time) *Notice {
	if err := w.checkWaiting(s, e.Message); err != nil {
		return w.recordBound(s, e, now, err)
	}
	s.waiting = append(s.waiting, e)
	w.changed.Set()
	return nil
}

// isWaiting reports whether a message waits to wake its session, or is in it. The caller holds
// mu.
func (w *Waker) isWaiting(k messageKey) bool {
	is := func(e *entry) bool { return e.key() == k }
	s := w.sessions[k.agent]
	return s != nil && (s.current != nil && is(s.current) || slices.ContainsFunc(s.waiting, is)) ||
		slices.ContainsFunc(w.listApprovals(time.Now()), func(a *approval) bool { return is(a.entry) })
}

// takeDue begins the messages that may wake their sessions now, one a session. next is when to
// look again, zero if only a change can lead to more.
func (w *Waker) takeDue(now time.Time) (due []*entry, notices []*Notice, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range w.sessions {
		if s.unwakeable {
			continue
		}
		for s.isFree(now) {
			e := w.takeNext(name, s, now)
			if e == nil {
				break
			}
			d := w.decideByRules(e.Message)
			if !w.Rules.MutedUntil(name, now).IsZero() || !d.allowed && !(d.ask && e.approval != nil) {
				s.forgetQuestion(e.Message)
				continue // muted or revoked meanwhile
			}
			e.grant.Unattended = d.unattended
			begun, notice := w.begin(s, e, now)
			if begun {
				due = append(due, e)
			}
			if notice != nil {
				notices = append(notices, notice)
			}
		}
		if at, ok := s.nextWake(); ok && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return due, notices, next
}

// takeNext takes the next message among those that no bound keeps back: the oldest of the peer that has
// caused the fewest turns of the session in the last day. It returns nil if there is no such message. The
// caller holds mu.
func (w *Waker) takeNext(name string, s *session, now time.Time) *entry {
	caused := w.countCharges(name, false, now.Add(-day))
	best := -1
	for i, e := range s.waiting {
		if !e.keptUntil.After(now) && (best < 0 || caused[e.charge.cause] < caused[s.waiting[best].charge.cause]) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	e := s.waiting[best]
	s.waiting = slices.Delete(s.waiting, best, best+1)
	return e
}
