package transfer

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// recordDeliveryOutcome gives an entry its next state after a delivery that ended at now with a
// reply or an error. said is the reply in words. An entry that is no longer being sent stays as
// it is: its file is gone or another one, or its agent is bound to another peer.
func (l *ledger) recordDeliveryOutcome(q *peerQueue, e *entry, reply *wire.MailReply, said string, err error, now time.Time) (events []Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.sending--
	q.signalLoops()
	if err == nil {
		q.unreached.pause, q.trouble = 0, ""
	}
	if e.state != sending {
		l.markFilesDirtyLocked(e.mailbox, nil)
		if s := l.bound[e.mailbox]; s != nil {
			s.goneRecorded = false // the store has a delivery of it now
		}
		return nil
	}
	switch unreached, ok := errors.AsType[*unreachableError](err); {
	case ok:
		e.setState(Waiting, "")
		q.stale = true
		q.backOffUnreachable(unreached.cause)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errChanging):
		e.setState(settling, "") // the next scan decides
		e.version = fileVersion{}
		l.markFilesDirtyLocked(e.mailbox, names{e.file: {}})
	case err != nil:
		q.scheduleRetry(e, ownwords.Of(err))
	case reply.Result == wire.MailRetry:
		q.scheduleRetry(e, said)
		if reply.Code == string(kinds.Overloaded) && reply.Scope != wire.MailScopeMessage {
			q.full.startPause(now, longestRetry) // it has no room for any of our mail
		}
	case reply.Result == wire.MailRefused:
		events = e.markRefused(q.peer, said)
		e.nextTry = now.Add(refusedPause)
	case isStoredReply(reply):
		e.setState(Delivered, "")
		e.since = now.Add(-time.Duration(now.Nanosecond() % int(time.Millisecond))) // as the store has it
		e.tries = 0
		q.full.pause = 0
		events = append(events, e.toEvent(q.peer))
	default:
		q.scheduleRetry(e, "its answer makes no sense")
	}
	return events
}

// isStoredReply reports whether a reply says that the message is stored at the peer.
func isStoredReply(reply *wire.MailReply) bool {
	return reply.Result == wire.MailStored || reply.Result == wire.MailDuplicate
}

// scheduleRetry lets an entry wait, longer after each try. The caller holds ledger.mu.
func (q *peerQueue) scheduleRetry(e *entry, reason string) {
	e.setState(Waiting, reason)
	e.nextTry = time.Now().Add(computeRetryPause(e.tries))
	e.tries++
	if q.refillAt.IsZero() || e.nextTry.Before(q.refillAt) {
		q.refillAt = e.nextTry
	}
}

// backOffUnreachable starts a pause for everything that goes to a peer. The caller holds
// ledger.mu.
func (q *peerQueue) backOffUnreachable(cause error) {
	q.trouble = ownwords.Of(cause)
	q.unreached.startPause(time.Now(), longestPause)
}

// randomizePause returns a random part of a pause, at least half.
func randomizePause(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// computeRetryPause returns the pause after a number of failed tries.
func computeRetryPause(tries int) time.Duration {
	return randomizePause(min(firstPause<<min(tries, 10), longestRetry))
}

// markParked keeps an entry from being carried, and returns an event if the reason is new.
func (e *entry) markParked(peer identity.ID, reason string) []Event {
	if e.state == Parked && e.reason == reason {
		return nil
	}
	e.setState(Parked, reason)
	return []Event{e.toEvent(peer)}
}

// markRefused parks an entry that its peer refused, and returns an event if the reason is new.
func (e *entry) markRefused(peer identity.ID, reason string) []Event {
	e.setState(Parked, reason)
	e.refused = true
	if e.reportedReason == reason { // it was only offered again
		return nil
	}
	e.reportedReason = reason
	return []Event{e.toEvent(peer)}
}
