package transfer

import (
	"maps"
	"time"
)

// markFilesDirtyLocked requests that the Run loop scans files of an inbox, all of them if which
// is nil. If which is empty, the loop only updates the agent's status. The caller holds l.mu.
func (l *ledger) markFilesDirtyLocked(p mailbox, which names) {
	old, ok := l.dirty[p]
	switch {
	case which == nil || ok && old == nil:
		l.dirty[p] = nil
	case !ok:
		l.dirty[p] = which
	default:
		for name := range which {
			old[name] = struct{}{}
		}
	}
	l.changed.Set()
}

// markFilesDirty is markFilesDirtyLocked for a caller that does not hold l.mu.
func (l *ledger) markFilesDirty(p mailbox, which names) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markFilesDirtyLocked(p, which)
}

// markFileComplete notes that a file's writer has removed its temporary name.
func (l *ledger) markFileComplete(p mailbox, file string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole[p] == nil {
		l.whole[p] = make(names)
	}
	l.whole[p][file] = struct{}{}
	l.markFilesDirtyLocked(p, names{file: {}})
}

// takeDirtyFiles returns the files that are to be scanned, and forgets them.
func (l *ledger) takeDirtyFiles() map[mailbox]names {
	l.mu.Lock()
	defer l.mu.Unlock()
	dirty := l.dirty
	l.dirty = make(map[mailbox]names)
	return dirty
}

// markAllDirty requests a scan of everything, offers again what was refused long ago, and
// requests that peers get the statuses of the agents here.
func (l *ledger) markAllDirty() {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.whole, func(p mailbox, _ names) bool { // of files that never came
		_, coming := l.dirty[p]
		return !coming
	})
	now := time.Now()
	maps.DeleteFunc(l.scanAfter, func(_ mailbox, at time.Time) bool { return now.After(at) })
	for p, s := range l.bound {
		l.markInboxDirty(p)
		for _, e := range s.entries {
			if e.refused && now.After(e.nextTry) {
				l.requeueEntry(e)
			}
		}
	}
	for p := range l.arrivals {
		l.markInboxDirty(p)
	}
	for peer, q := range l.queues {
		if now.Sub(q.announcedAt) >= announceEvery {
			q.signalLoops()
		}
		if q.retryPending {
			l.retryRefusedByPeer(peer)
		}
	}
}

// markInboxDirty requests a scan of an inbox, or only an update of the agent's status if
// delayNextScan has put the scan off. The caller holds l.mu.
func (l *ledger) markInboxDirty(p mailbox) {
	if _, later := l.scanAfter[p]; later {
		l.markFilesDirtyLocked(p, names{})
	} else {
		l.markFilesDirtyLocked(p, nil)
	}
}

// delayNextScan puts off the next scan of an inbox of n names if this scan took long. Single files
// that change are still scanned. A scan of few names takes long only if the machine or its disk
// is busy with something else, and is not put off.
func (l *ledger) delayNextScan(p mailbox, n int, took time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := scanShare * min(took, time.Duration(n)*scanTimePerName); wait > rescanEvery {
		l.scanAfter[p] = now.Add(wait)
	}
}

// isInboxScanned reports whether an inbox is scanned.
func (l *ledger) isInboxScanned(p mailbox) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bound[p] != nil || l.arrivals[p] != nil
}
