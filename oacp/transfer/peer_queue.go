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

	ready       []*entry  // in the order of sending; refilled when stale
	stale       bool      // an entry waits that is not in ready
	refillAt    time.Time // when the first pause of an entry ends and ready becomes stale; zero if none has one
	sending     int       // how many entries are being sent
	sendingRank int       // their rank

	unreported bool                    // the store may have arrivals that are consumed and not reported
	reporting  bool                    // they are being reported
	postponed  map[arrivalKey]*backOff // of reports that the peer does not take yet, while it takes others

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
		q = &peerQueue{peer: peer, deliverSignal: pace.NewSignal(), reportSignal: pace.NewSignal(), postponed: make(map[arrivalKey]*backOff)}
		l.queues[peer] = q
	}
	return q
}

// signalLoops wakes both loops.
func (q *peerQueue) signalLoops() {
	q.deliverSignal.Set()
	q.reportSignal.Set()
}

// markReadyStale notes that another entry waits. The caller holds ledger.mu.
func (q *peerQueue) markReadyStale() {
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
	return q.unreported || q.reporting || q.sending > 0
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
		l.refillReady(q, now)
	}
	for len(q.ready) > 0 {
		e := q.ready[0]
		if s := l.bound[e.mailbox]; e.state == Waiting && s != nil && s.Peer == q.peer && !e.nextTry.After(now) {
			if q.sending == maxSending || q.sending > 0 && q.sendingRank != e.rank {
				break // the end of a delivery asks again
			}
			q.ready = q.ready[1:]
			q.sendingRank = e.rank
			q.sending++
			e.setState(sending, e.reason)
			return e, 0
		}
		q.ready = q.ready[1:] // it no longer waits
	}
	if q.refillAt.IsZero() {
		return nil, 0
	}
	return nil, max(q.refillAt.Sub(now), time.Millisecond)
}

// refillReady lists the entries that wait for a peer. The caller holds l.mu.
func (l *ledger) refillReady(q *peerQueue, now time.Time) {
	q.stale, q.refillAt, q.ready = false, time.Time{}, nil
	for _, s := range l.bound {
		if s.Peer != q.peer {
			continue
		}
		for _, e := range s.entries {
			switch {
			case e.state != Waiting:
			case !e.nextTry.After(now):
				q.ready = append(q.ready, e)
			case q.refillAt.IsZero() || e.nextTry.Before(q.refillAt):
				q.refillAt = e.nextTry
			}
		}
	}
	slices.SortFunc(q.ready, (*entry).compareUrgency)
	if soon := now.Add(refillPause); !q.refillAt.IsZero() && q.refillAt.Before(soon) {
		q.refillAt = soon
	}
}

// Reports.

// beginReports reports whether the store may have reports to make. If it is too early to try to
// reach the peer again, it returns how long to wait. The caller ends due reports with endReports.
func (l *ledger) beginReports(q *peerQueue) (due bool, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait = time.Until(q.unreached.until); wait > 0 {
		return false, wait
	}
	due, q.unreported, q.reporting = q.unreported, false, q.unreported
	return due, 0
}

// endReports notes that no report is being made. failed is set if some are left that are not
// postponed. wait is the time before the first postponed report is due, zero if there is none.
func (l *ledger) endReports(q *peerQueue, failed bool) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range q.postponed {
		if left := max(time.Until(b.until), time.Millisecond); wait == 0 || left < wait {
			wait = left
		}
	}
	q.unreported, q.reporting = q.unreported || failed || wait > 0, false
	return wait
}

// postponeReport starts the next pause of a report that the peer does not take yet. It returns
// false if too many have one.
func (l *ledger) postponeReport(q *peerQueue, key arrivalKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := q.postponed[key]
	switch {
	case b != nil:
	case len(q.postponed) == maxPostponed:
		return false
	default:
		b = new(backOff)
		q.postponed[key] = b
	}
	b.startPause(time.Now(), longestRetry)
	return true
}

// dropPostponedReports returns the reports from the store that can be made now, without those in
// a pause. It forgets the pauses of reports that the store did not return.
func (l *ledger) dropPostponedReports(q *peerQueue, all []*arrival) []*arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := q.postponed
	q.postponed = make(map[arrivalKey]*backOff)
	return slices.DeleteFunc(all, func(a *arrival) bool {
		b := old[a.key]
		if b == nil {
			return false
		}
		q.postponed[a.key] = b
		return time.Now().Before(b.until)
	})
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
