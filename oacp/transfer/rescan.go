package transfer

import (
	"maps"
	"time"
)

// markAllDirty has everything looked at, offers again what was refused long ago, and
// tells peers how the agents here are.
func (m *Mailer) markAllDirty() {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.whole, func(p mailbox, _ names) bool { // of files that never came
		_, coming := m.dirty[p]
		return !coming
	})
	now := time.Now()
	for p := range m.scanAfter {
		if m.bound[p] == nil && m.arrivals[p] == nil {
			delete(m.scanAfter, p)
		}
	}
	for p, s := range m.bound {
		m.markInbox(p, now)
		for _, e := range s.entries {
			if e.refused && now.After(e.nextTry) {
				m.requeue(e)
			}
		}
	}
	for p := range m.arrivals {
		m.markInbox(p, now)
	}
	for peer, k := range m.queues {
		if now.Sub(k.announcedAt) >= announceEvery {
			k.wake()
		}
		if k.retryPending {
			m.retryRefused(peer)
		}
	}
}

// markInbox has a folder looked through, if its turn has come. The caller holds m.mu.
func (m *Mailer) markInbox(p mailbox, now time.Time) {
	if now.After(m.scanAfter[p]) {
		m.markDirty(p, nil)
	}
}

// delayScan puts off the next look through a folder of n names that took long: what is
// heard of it is looked at all the same. Few names take long only where the machine or its
// disk is busy with something else, which is no reason to wait.
func (m *Mailer) delayScan(p mailbox, n int, took time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if wait := scanShare * min(took, time.Duration(n)*scanTimePerName); wait > rescanEvery {
		m.scanAfter[p] = now.Add(wait)
	} else {
		delete(m.scanAfter, p)
	}
}

// mailboxes are the folders that are looked at.
func (m *Mailer) mailboxes() map[mailbox]struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[mailbox]struct{}, len(m.bound)+len(m.arrivals))
	for p := range m.bound {
		all[p] = struct{}{}
	}
	for p := range m.arrivals {
		all[p] = struct{}{}
	}
	return all
}
