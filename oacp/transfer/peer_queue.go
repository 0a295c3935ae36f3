package transfer

import (
	"maps"
	"slices"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
)

// peerQueue holds what waits for one peer: deliveries, reports of consumed arrivals, and
// announcements of the agents here. ledger.mu guards it.
type peerQueue struct {
	peer identity.ID

	running   int    // how many of its loops run; see Mailer.startAndStopLoops
	stop      func() // ends them
	untrusted bool

	// Deliveries and reports each have a loop of their own, so that neither waits
	// for the other.
	deliverSignal, reportSignal pace.Signal

	todo        []*entry  // in the order of sending; refilled when stale
	stale       bool      // an entry waits that is not in todo
	refillAt    time.Time // when the first pause of an entry ends and todo becomes stale; zero if none has one
	sending     int       // how many entries are being sent
	sendingRank int       // their rank

	reports   []*arrival              // consumed here, and not reported
	reporting bool                    // some of them are being reported
	postponed map[arrivalKey]*arrival // those that the peer does not take yet, while it takes others
	unread    bool                    // the store may have more

	announced     map[mailbox]string // the statuses that the peer knows
	announcedAt   time.Time
	announcements int // counts the reasons to announce all agents

	unreached backOff // while the peer cannot be reached
	trouble   string  // why it cannot
	full      backOff // while the peer has no room for our mail

	retriedAt    time.Time // when the peer was last offered what it had refused
	retryPending bool      // something has changed there, and it is to be offered again
}

// backOff is a pause before the next try, which grows with each failure.
type backOff struct {
	pause time.Duration
	until time.Time
}

// startPause begins the next pause, unless there is one at now: then another goroutine has just
// had the same failure.
func (b *backOff) startPause(now time.Time, longest time.Duration) {
	if !now.Before(b.until) {
		b.pause = min(max(2*b.pause, firstPause), longest)
		b.until = now.Add(randomizePause(b.pause))
	}
}

// ensureQueue returns the queue of a peer, and makes it if needed. The caller holds l.mu.
func (l *ledger) ensureQueue(peer identity.ID) *peerQueue {
	q := l.queues[peer]
	if q == nil {
		q = &peerQueue{peer: peer, deliverSignal: pace.NewSignal(), reportSignal: pace.NewSignal(), postponed: make(map[arrivalKey]*arrival)}
		l.queues[peer] = q
	}
	return q
}

// signalLoops wakes both loops.
func (q *peerQueue) signalLoops() {
	q.deliverSignal.Set()
	q.reportSignal.Set()
}

// markTodoStale notes that another entry waits. The caller holds ledger.mu.
func (q *peerQueue) markTodoStale() {
	q.stale = true
	q.signalLoops()
}

// listPeersWithQueue returns the peers that have a queue.
func (l *ledger) listPeersWithQueue() []identity.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.queues))
}

// planQueueLoops returns the queues whose loops the caller starts or stops, and counts those to
// start as running. Loops stop if their peer is not trusted, or if no agent is bound to the peer
// and there is nothing to report to it. untrusted has, by peer, why its mail waits.
// planQueueLoops forgets queues that are not needed and have no loops.
func (l *ledger) planQueueLoops(untrusted map[identity.ID]string) (start, stop []*peerQueue) {
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
			q.unreached, q.trouble, q.untrusted = backOff{}, "", false
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

// countEndedLoop notes that one of a queue's loops has ended, and reports whether it was the last.
func (l *ledger) countEndedLoop(q *peerQueue) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.running--
	if q.running == 0 {
		l.changed.Set() // it may be needed again by now
	}
	return q.running == 0
}

// hasWork reports whether the peer is to get a report, or a delivery or a report is under way.
// The caller holds ledger.mu.
func (q *peerQueue) hasWork() bool {
	return q.unread || q.reporting || q.sending > 0 || len(q.reports) > 0 || len(q.postponed) > 0
}

// Deliveries.

// takeNextEntry takes the entry that is to be delivered now. If there is none, it returns how
// long to wait before asking again; zero means until the queue's signal.
func (l *ledger) takeNextEntry(q *peerQueue) (*entry, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if wait := max(q.unreached.until.Sub(now), q.full.until.Sub(now)); wait > 0 {
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
			e.setState(sending, e.reason)
			return e, 0
		}
		q.todo = q.todo[1:] // it no longer waits
	}
	if q.refillAt.IsZero() {
		return nil, 0
	}
	return nil, max(q.refillAt.Sub(now), time.Millisecond)
}

// refillTodo lists the entries that wait for a peer. The caller holds l.mu.
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
	slices.SortFunc(q.todo, (*entry).compareUrgency)
	if soon := now.Add(refillPause); !q.refillAt.IsZero() && q.refillAt.Before(soon) {
		q.refillAt = soon
	}
}

// isEntryOutranked reports whether a more urgent entry than e waits for the peer.
func (l *ledger) isEntryOutranked(q *peerQueue, e *entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.stale {
		l.refillTodo(q, time.Now())
	}
	first := slices.IndexFunc(q.todo, func(o *entry) bool { return o.state == Waiting })
	return first >= 0 && q.todo[first].rank < e.rank
}

// Reports.

// takeDueReports takes the reports that are to be made now. If there are none, ask is set if the
// store may have some. wait is the time before the next try to reach the peer.
func (l *ledger) takeDueReports(q *peerQueue) (all []*arrival, ask bool, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait = time.Until(q.unreached.until); wait > 0 {
		return nil, false, wait
	}
	all, q.reports = append(q.reports, q.takeDuePostponed(time.Now())...), nil
	q.reporting = true
	if len(all) == 0 {
		ask, q.unread = q.unread, false
	}
	return all, ask, 0
}

// requeueReports puts reports that could not be made behind the others. more is set if the store
// may have more. wait is the time before the next try to reach the peer, next the time before
// the next postponed report.
func (l *ledger) requeueReports(q *peerQueue, left []*arrival) (more bool, wait, next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.reports, q.reporting = append(q.reports, left...), false
	return q.unread && len(q.reports) == 0, max(time.Until(q.unreached.until), 0), q.timeUntilNextPostponed()
}

// dropPostponedReports returns the reports from the store without those that are postponed. The
// caller sets more if the store has more, or could not be read.
func (l *ledger) dropPostponedReports(q *peerQueue, all []*arrival, more bool) []*arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.unread = q.unread || more
	return slices.DeleteFunc(all, func(a *arrival) bool { return q.postponed[a.key] != nil })
}

// markPeerUnreachable starts a pause for everything that goes to a peer.
func (l *ledger) markPeerUnreachable(q *peerQueue, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.backOffUnreachable(cause)
}

// isQueueBackingOff reports whether it is too early to try to reach a peer again.
func (l *ledger) isQueueBackingOff(q *peerQueue) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(q.unreached.until)
}

// postponeReport gives a report that the peer does not take yet a pause of its own. It returns
// false if too many have one.
func (l *ledger) postponeReport(q *peerQueue, a *arrival) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(q.postponed) == maxPostponed {
		return false
	}
	a.due = time.Now().Add(computeRetryPause(a.tries))
	a.tries++
	q.postponed[a.key] = a
	return true
}

// takeDuePostponed takes the postponed reports that are due. The caller holds ledger.mu.
func (q *peerQueue) takeDuePostponed(now time.Time) (all []*arrival) {
	for key, a := range q.postponed {
		if !a.due.After(now) {
			all = append(all, a)
			delete(q.postponed, key)
		}
	}
	return all
}

// timeUntilNextPostponed returns the time before the next postponed report is due, zero if there
// is none. The caller holds ledger.mu.
func (q *peerQueue) timeUntilNextPostponed() (wait time.Duration) {
	for _, a := range q.postponed {
		if left := max(time.Until(a.due), time.Millisecond); wait == 0 || left < wait {
			wait = left
		}
	}
	return wait
}

// Announcements.

// requestAnnouncement requests that all agents are announced to the peer. The caller holds
// ledger.mu.
func (q *peerQueue) requestAnnouncement() {
	q.announced = nil
	q.announcements++
	q.signalLoops()
}

// agentAnnouncement announces the agents here to a peer.
type agentAnnouncement struct {
	projects map[string]struct{} // in which it has agents
	told     map[mailbox]string  // the statuses that it knows
	reason   int                 // the queue's count of announcements when it began
}

// beginAgentAnnouncement returns an announcement for a peer. It returns nil if the peer is not
// connected, or has no agents, or if the last announcement was a short time ago.
func (l *ledger) beginAgentAnnouncement(q *peerQueue) *agentAnnouncement {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.announced != nil && time.Since(q.announcedAt) < announceEvery {
		return nil
	}
	q.announcedAt = time.Now()
	a := &agentAnnouncement{projects: make(map[string]struct{}), told: q.announced, reason: q.announcements}
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

// recordAgentAnnouncement notes the statuses that a peer knows now, unless all are to be announced
// again.
func (l *ledger) recordAgentAnnouncement(q *peerQueue, a *agentAnnouncement, told map[mailbox]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.announcements == a.reason {
		q.announced = told
	}
}
