package transfer

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// peerQueue is what waits for one peer: deliveries, reports of what is consumed, and what
// the peer is told of the agents here. ledger.mu guards it.
type peerQueue struct {
	peer identity.ID

	running   int    // its loops that run; see superviseQueues
	stop      func() // ends them
	untrusted bool

	// Deliveries and reports each have a loop of their own, so that neither waits
	// for the other.
	deliverSignal, reportSignal pace.Signal

	todo        []*entry  // in the order of sending; made anew when stale
	stale       bool      // something waits that is not in todo
	refillAt    time.Time // when a pause ends and todo is stale by itself; zero: never
	sending     int       // entries
	sendingRank int       // theirs

	reports   []*arrival              // consumed here, and not reported
	reporting bool                    // some of them are just being reported
	postponed map[arrivalKey]*arrival // those that the peer does not take yet while it takes others
	unread    bool                    // the store may have further ones

	announced     map[mailbox]string // the statuses that the peer was told
	announcedAt   time.Time
	announcements int // counts the reasons to tell all of them

	unreachedPause time.Duration // since the peer cannot be reached
	unreachedUntil time.Time
	trouble        string // why

	fullPause time.Duration // since it has no room for our mail
	fullUntil time.Time

	retriedAt    time.Time // when it was offered again what it had refused
	retryPending bool      // it has given a reason to do so again
}

// queueOf returns what waits for a peer. The caller holds l.mu.
func (l *ledger) queueOf(peer identity.ID) *peerQueue {
	q := l.queues[peer]
	if q == nil {
		q = &peerQueue{peer: peer, deliverSignal: pace.NewSignal(), reportSignal: pace.NewSignal(), postponed: make(map[arrivalKey]*arrival)}
		l.queues[peer] = q
	}
	return q
}

// wake has both loops look again.
func (q *peerQueue) wake() {
	q.deliverSignal.Set()
	q.reportSignal.Set()
}

// queuePeers returns the peers that have a queue.
func (l *ledger) queuePeers() []identity.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.queues))
}

// neededQueues returns the queues whose loops are to be started, which are counted as
// running, and those whose loops are to be stopped: of a peer that is not trusted, which
// untrusted says why, and of one to which no agent is bound and nothing is to be told. It
// forgets queues that are not needed and have no loops any more.
func (l *ledger) neededQueues(untrusted map[identity.ID]string) (start, stop []*peerQueue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	bound := make(map[identity.ID]bool, len(l.queues))
	for _, s := range l.bound {
		bound[s.Peer] = true
	}
	for peer, q := range l.queues {
		why := untrusted[peer]
		needed := bound[peer] || q.hasWork()
		switch {
		case why != "":
			q.trouble, q.untrusted = why, true
		case q.untrusted: // it is trusted again
			q.unreachedPause, q.unreachedUntil, q.trouble, q.untrusted = 0, time.Time{}, "", false
		}
		switch on := needed && !q.untrusted; {
		case on && q.running == 0:
			q.running = 2
			start = append(start, q)
		case !on && q.running > 0:
			stop = append(stop, q)
		case !needed && q.running == 0:
			delete(l.queues, peer)
		}
	}
	return start, stop
}

// loopEnded notes that one of a queue's loops has ended, and reports whether it was the last.
func (l *ledger) loopEnded(q *peerQueue) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.running--
	if q.running == 0 {
		l.changed.Set() // it may be needed again by now
	}
	return q.running == 0
}

// hasWork reports whether there is something to tell the peer, or a delivery or a report is
// under way. The caller holds ledger.mu.
func (q *peerQueue) hasWork() bool {
	return q.unread || q.reporting || q.sending > 0 || len(q.reports) > 0 || len(q.postponed) > 0
}

// Deliveries.

// takeNext takes the entry that is to be delivered now, or says when to ask again: 0 is
// when the queue is woken.
func (l *ledger) takeNext(q *peerQueue) (*entry, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if wait := max(q.unreachedUntil.Sub(now), q.fullUntil.Sub(now)); wait > 0 {
		return nil, wait
	}
	if q.stale || !q.refillAt.IsZero() && !now.Before(q.refillAt) {
		l.refillTodo(q, now)
	}
	for len(q.todo) > 0 {
		e := q.todo[0]
		if s := l.bound[e.mailbox]; e.state == Waiting && s != nil && s.Peer == q.peer && !e.nextTry.After(now) {
			if q.sending == maxSending || q.sending > 0 && q.sendingRank != e.rank {
				break // the end of a delivery asks again
			}
			q.todo = q.todo[1:]
			q.sendingRank = e.rank
			q.sending++
			e.set(sending, e.reason)
			return e, 0
		}
		q.todo = q.todo[1:] // it went meanwhile
	}
	if q.refillAt.IsZero() {
		return nil, 0
	}
	return nil, max(q.refillAt.Sub(now), time.Millisecond)
}

// refillTodo finds what waits for a peer. The caller holds l.mu.
func (l *ledger) refillTodo(q *peerQueue, now time.Time) {
	q.stale, q.refillAt, q.todo = false, time.Time{}, nil
	for _, s := range l.bound {
		if s.Peer != q.peer {
			continue
		}
		for _, e := range s.entries {
			switch {
			case e.state != Waiting:
			case !e.nextTry.After(now):
				q.todo = append(q.todo, e)
			case q.refillAt.IsZero() || e.nextTry.Before(q.refillAt):
				q.refillAt = e.nextTry
			}
		}
	}
	slices.SortFunc(q.todo, (*entry).before)
	if soon := now.Add(refillPause); !q.refillAt.IsZero() && q.refillAt.Before(soon) {
		q.refillAt = soon
	}
}

// isOutranked reports whether something more urgent than an entry waits for the peer.
func (l *ledger) isOutranked(q *peerQueue, e *entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.stale {
		l.refillTodo(q, time.Now())
	}
	first := slices.IndexFunc(q.todo, func(o *entry) bool { return o.state == Waiting })
	return first >= 0 && q.todo[first].rank < e.rank
}

// endDelivery moves an entry on after a delivery that ended at now with a reply or an error. said
// is the reply in words. An entry that is not being sent any more stays as it is, because
// its file went, is another now, or its agent is bound to another peer.
func (l *ledger) endDelivery(q *peerQueue, e *entry, reply *wire.MailReply, said string, err error, now time.Time) (events []Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.sending--
	q.wake()
	if err == nil {
		q.unreachedPause, q.trouble = 0, ""
	}
	if e.state != sending {
		l.markDirty(e.mailbox, nil)
		if s := l.bound[e.mailbox]; s != nil {
			s.goneRecorded = false // and the store knows of it
		}
		return nil
	}
	switch unreached, ok := errors.AsType[*unreachedError](err); {
	case ok:
		e.set(Waiting, "")
		q.stale = true
		q.backOffUnreached(unreached.cause)
	case errors.Is(err, errOutranked):
		e.set(Waiting, e.reason)
		q.stale = true
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errChanging):
		e.set(settling, "") // the next scan decides
		e.version = fileVersion{}
		l.markDirty(e.mailbox, names{e.file: {}})
	case err != nil:
		q.retryLater(e, err.Error())
	case reply.Result == wire.MailRetry:
		q.retryLater(e, said)
		if reply.Code == string(kinds.Overloaded) && reply.Scope != wire.MailScopeMessage {
			q.backOffFull(now)
		}
	case reply.Result == wire.MailRefused:
		events = e.refuse(q.peer, said)
		e.nextTry = now.Add(refusedPause)
	case isStored(reply):
		e.set(Delivered, "")
		e.since = now.Add(-time.Duration(now.Nanosecond() % int(time.Millisecond))) // as the store has it
		e.tries = 0
		q.fullPause = 0
		events = append(events, e.event(q.peer))
	default:
		q.retryLater(e, "an answer that makes no sense: "+reply.Result)
	}
	return events
}

// isStored reports whether a reply says that the message is stored at the peer.
func isStored(reply *wire.MailReply) bool {
	return reply.Result == wire.MailStored || reply.Result == wire.MailDuplicate
}

// retryLater has an entry wait, longer after each try. The caller holds ledger.mu.
func (q *peerQueue) retryLater(e *entry, reason string) {
	e.set(Waiting, reason)
	e.nextTry = time.Now().Add(jitter(min(firstPause<<min(e.tries, 10), longestRetry)))
	e.tries++
	if q.refillAt.IsZero() || e.nextTry.Before(q.refillAt) {
		q.refillAt = e.nextTry
	}
}

// backOffUnreached has everything wait for a peer that cannot be reached. The caller holds ledger.mu.
func (q *peerQueue) backOffUnreached(cause error) {
	q.trouble = cause.Error()
	if time.Now().Before(q.unreachedUntil) {
		return // another has just found that out
	}
	q.unreachedPause = min(max(2*q.unreachedPause, firstPause), longestPause)
	q.unreachedUntil = time.Now().Add(jitter(q.unreachedPause))
}

// backOffFull has all deliveries wait for a peer that has no room for them: our share is of
// all of them. The caller holds ledger.mu.
func (q *peerQueue) backOffFull(now time.Time) {
	if now.Before(q.fullUntil) {
		return // another has just found that out
	}
	q.fullPause = min(max(2*q.fullPause, firstPause), longestRetry)
	q.fullUntil = now.Add(jitter(q.fullPause))
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// Reports.

// takeReports takes the reports that are to be made now; wait is how long a peer that
// cannot be reached is left alone.
func (l *ledger) takeReports(q *peerQueue) (all []*arrival, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait = time.Until(q.unreachedUntil); wait > 0 {
		return nil, wait
	}
	all, q.reports = append(q.reports, q.takePostponed(time.Now())...), nil
	q.reporting = true
	return all, 0
}

// endReports puts back reports that could not be made, behind others. more says that the
// store may have further ones. wait is how long the peer is left alone, and next how long
// the next postponed report has to wait.
func (l *ledger) endReports(q *peerQueue, left []*arrival) (more bool, wait, next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.reports, q.reporting = append(q.reports, left...), false
	return q.unread && len(q.reports) == 0, max(time.Until(q.unreachedUntil), 0), q.postponedWait()
}

// takeUnread reports whether the store may have further reports, and notes that they are read.
func (l *ledger) takeUnread(q *peerQueue) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	unread := q.unread
	q.unread = false
	return unread
}

// addUnread takes the reports that the store gave, of which those are left out that wait by
// themselves. more says that there are further ones, or that it could not be read.
func (l *ledger) addUnread(q *peerQueue, all []*arrival, more bool) []*arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.unread = q.unread || more
	return slices.DeleteFunc(all, func(a *arrival) bool { return q.postponed[a.key] != nil })
}

// noteUnreached has everything wait for a peer that cannot be reached.
func (l *ledger) noteUnreached(q *peerQueue, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.backOffUnreached(cause)
}

// isBackingOff reports whether a peer that could not be reached is left alone.
func (l *ledger) isBackingOff(q *peerQueue) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(q.unreachedUntil)
}

// postpone has a report that the peer does not take yet wait by itself, and reports whether
// there is room for that.
func (l *ledger) postpone(q *peerQueue, a *arrival) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(q.postponed) == maxPostponed {
		return false
	}
	a.due = time.Now().Add(jitter(min(firstPause<<min(a.tries, 10), longestRetry)))
	a.tries++
	q.postponed[a.key] = a
	return true
}

// takePostponed takes the reports that have waited long enough. The caller holds ledger.mu.
func (q *peerQueue) takePostponed(now time.Time) (all []*arrival) {
	for key, a := range q.postponed {
		if !a.due.After(now) {
			all = append(all, a)
			delete(q.postponed, key)
		}
	}
	return all
}

// postponedWait returns how long the next of them has to wait, 0 if there is none. The
// caller holds ledger.mu.
func (q *peerQueue) postponedWait() (wait time.Duration) {
	for _, a := range q.postponed {
		if left := max(time.Until(a.due), time.Millisecond); wait == 0 || left < wait {
			wait = left
		}
	}
	return wait
}

// Announcements.

// announceAgain has the peer told of all agents. The caller holds ledger.mu.
func (q *peerQueue) announceAgain() {
	q.announced = nil
	q.announcements++
	q.wake()
}

// announcement is what a peer is to be told of the agents here.
type announcement struct {
	projects map[string]struct{} // in which it has agents
	told     map[mailbox]string  // the statuses that it knows
	reason   int                 // announcements of the queue, when it began
}

// beginAnnouncement returns what a peer is to be told, nil if it is not connected, or if
// there is nothing, or if it was told a short time ago.
func (l *ledger) beginAnnouncement(q *peerQueue) *announcement {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.announced != nil && time.Since(q.announcedAt) < announceEvery {
		return nil
	}
	q.announcedAt = time.Now()
	a := &announcement{projects: make(map[string]struct{}), told: q.announced, reason: q.announcements}
	for p, s := range l.bound {
		if s.Peer == q.peer {
			a.projects[p.project] = struct{}{}
		}
	}
	if !l.connected[q.peer] || len(a.projects) == 0 {
		return nil
	}
	return a
}

// endAnnouncement notes what a peer was told, unless there is a reason meanwhile to tell
// it everything again.
func (l *ledger) endAnnouncement(q *peerQueue, a *announcement, told map[mailbox]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.announcements == a.reason {
		q.announced = told
	}
}
