package transfer

import (
	"errors"
	"fmt"
	"time"

	"github.com/acpd/acpd/identity"
)

// finding holds the facts about a settled entry: from its file, and from the store.
type finding struct {
	entry *entry
	file  *mailFile // nil if it could not be read
	fault error     // why it cannot be carried
	flaw  string    // why it is not a valid message
	rank  int

	delivered *delivery // from this file to the peer of its inbox, or nil
	arrived   bool      // the message came from a peer
}

// applyFindings gives settled entries their next state, unless their inbox is now bound to
// another peer. The caller scans the files in again once more.
func (l *ledger) applyFindings(p mailbox, peer identity.ID, all []*finding) (again unsettledFiles, events []Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, now := l.bound[p], time.Now()
	for _, f := range all {
		e := f.entry
		if s == nil || s.Peer != peer || e.state != settling {
			continue // the next scan is of it as it is bound now
		}
		switch _, unfit := errors.AsType[unfitError](f.fault); {
		case f.file != nil && f.file.version != e.version:
			continue // the next scan finds another file
		case f.file != nil:
			e.hash, e.rank = f.file.hash, f.rank
		case !unfit: // it may be readable at the next scan
			e.reason = f.fault.Error()
			continue
		}
		if f.flaw != "" {
			e.restTime = invalidRestTime
		}
		switch wait := e.remainingSettleTime(now); {
		case f.delivered != nil && f.delivered.hash == f.file.hash:
			e.setState(Delivered, "")
			e.since = f.delivered.at
			if f.delivered.consumed {
				e.consumedHash = f.file.hash
			}
		case f.delivered != nil:
			events = append(events, e.markParked(peer, "it was changed after it was delivered, and a message never changes: give it another name to send it")...)
		case f.arrived:
			events = append(events, e.markParked(peer, "it came from another machine, and mail is not sent on")...)
		case wait > 0:
			e.reason = fmt.Sprintf("%s: %s; it is taken as it is when it has rested for %s", beingWritten, f.flaw, invalidRestTime)
			again.addFile(e.file, wait)
		case f.fault != nil:
			events = append(events, e.markParked(peer, f.fault.Error())...)
		default:
			e.setState(Waiting, "")
			l.ensureQueue(peer).markReadyStale()
		}
	}
	return again, events
}

// requeueRefusedEntries offers the entries again that the peer of an inbox has refused, or would
// not take yet. It reports whether there were any. The caller holds l.mu.
func (l *ledger) requeueRefusedEntries(s *boundInbox) (any bool) {
	for _, e := range s.entries {
		if e.refused || e.state == Waiting {
			any = any || e.refused || e.tries > 0
			l.requeueEntry(e)
		}
	}
	return any
}

// retryRefusedByPeer offers a peer the entries again that it has refused, or would not take
// yet, because something has changed there. It does so at once, but not twice in a minute. The
// caller holds l.mu.
func (l *ledger) retryRefusedByPeer(peer identity.ID) {
	q, now := l.ensureQueue(peer), time.Now()
	if q.retryPending = now.Sub(q.retriedAt) < retryRefusedEvery; q.retryPending {
		return
	}
	for _, s := range l.bound {
		if s.Peer == peer && l.requeueRefusedEntries(s) {
			q.retriedAt = now
		}
	}
}

// findRemovableEntries returns the entries, of some files or of all if which is nil, whose copies
// here can be removed: the agent there has finished its copy, or the linger is over.
func (l *ledger) findRemovableEntries(p mailbox, which names) (all []*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.bound[p]
	if s == nil {
		return nil
	}
	for _, e := range filterByNames(s.entries, which) {
		if e.state != Delivered {
			continue
		}
		if s.Mode == mirror && e.consumedHash == e.hash || s.Mode == onStored && time.Since(e.since) >= s.Linger {
			all = append(all, e)
		}
	}
	return all
}
