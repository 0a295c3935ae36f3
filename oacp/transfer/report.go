package transfer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// reportLoop tells a peer what is consumed of its mail, and how the agents are that
// live here and have to do with it.
func (m *Mailer) reportLoop(ctx context.Context, k *peerQueue) {
	var pause time.Duration // since the peer does not take reports, or the ledger does not give them
	later := func() {
		pause = min(max(2*pause, firstPause), longestRetry)
		_ = pace.Sleep(ctx, jitter(pause))
	}
	for ctx.Err() == nil {
		m.mu.Lock()
		wait := time.Until(k.unreachedUntil)
		var all []*arrival
		if wait <= 0 {
			all, k.reports = append(k.reports, k.takePostponed(time.Now())...), nil
			k.reporting = true
		}
		m.mu.Unlock()
		if wait > 0 {
			waitFor(ctx, k.reportSignal, wait)
			continue
		}
		if len(all) == 0 {
			var err error
			if all, err = m.readUnreported(ctx, k); err != nil {
				m.mu.Lock()
				k.reporting = false // it is untold
				m.mu.Unlock()
				later()
				continue
			}
		}
		left := m.reportBatch(ctx, k, all)
		m.mu.Lock()
		k.reports, k.reporting = append(k.reports, left...), false // the next round begins with others
		more := k.unread && len(k.reports) == 0
		wait = max(time.Until(k.unreachedUntil), 0)
		next := k.postponedWait()
		m.mu.Unlock()
		if len(left) < len(all) {
			pause = 0
		}
		switch {
		case len(left) == 0:
			m.announceAgents(ctx, k)
		case wait == 0: // it says that it cannot take them now
			later()
			continue
		}
		if !more {
			if wait == 0 {
				wait = next
			}
			waitFor(ctx, k.reportSignal, wait)
		}
	}
}

// maxPostponed bounds the reports that wait alone: where a peer does not take so many, all
// wait with them. The ledger is read for more than that at once, so that it always gives
// some that do not wait.
const maxPostponed = maxReportsKept / 2

// postpone has a report that the peer does not take yet wait alone, and reports whether it
// does. The caller holds Mailer.mu.
func (k *peerQueue) postpone(a *arrival) bool {
	if len(k.postponed) == maxPostponed {
		return false
	}
	a.due = time.Now().Add(jitter(min(firstPause<<min(a.tries, 10), longestRetry)))
	a.tries++
	k.postponed[a.key] = a
	return true
}

// takePostponed takes the reports that have waited long enough. The caller holds Mailer.mu.
func (k *peerQueue) takePostponed(now time.Time) (all []*arrival) {
	for key, a := range k.postponed {
		if !a.due.After(now) {
			all = append(all, a)
			delete(k.postponed, key)
		}
	}
	return all
}

// postponedWait is how long the next of them has to wait, 0 if there is none. The caller
// holds Mailer.mu.
func (k *peerQueue) postponedWait() (wait time.Duration) {
	for _, a := range k.postponed {
		if left := max(time.Until(a.due), time.Millisecond); wait == 0 || left < wait {
			wait = left
		}
	}
	return wait
}

// readUnreported returns what the ledger has to be told to a peer, some of it.
func (m *Mailer) readUnreported(ctx context.Context, k *peerQueue) (all []*arrival, err error) {
	m.mu.Lock()
	untold := k.unread
	k.unread = false
	m.mu.Unlock()
	if !untold {
		return nil, nil
	}
	err = m.readStore(ctx, func(tx *store.Tx) (err error) {
		all, err = sqlUnreported(tx, k.peer, maxReportsKept)
		return err
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || len(all) == maxReportsKept {
		k.unread = true
	}
	return slices.DeleteFunc(all, func(a *arrival) bool { return k.postponed[a.key] != nil }), err
}

// reportBatch reports what is consumed and returns what could not be reported: after the first
// that the peer does not take it is asked to take no further ones.
func (m *Mailer) reportBatch(ctx context.Context, k *peerQueue, all []*arrival) (left []*arrival) {
	var (
		mu    sync.Mutex // guards left
		tasks sync.WaitGroup
		slots = make(chan struct{}, maxReports)
	)
	for i, a := range all {
		slots <- struct{}{}
		mu.Lock()
		enough := len(left) > 0
		mu.Unlock()
		if enough {
			tasks.Wait()
			return append(slices.Clone(all[i:]), left...)
		}
		tasks.Go(func() {
			defer func() { <-slots }()
			if m.reportArrival(ctx, k, a) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			left = append(left, a)
		})
	}
	tasks.Wait()
	return left
}

// reportArrival reports one message, and reports whether that is over, or waits alone.
func (m *Mailer) reportArrival(ctx context.Context, k *peerQueue, a *arrival) bool {
	m.mu.Lock()
	resting := time.Now().Before(k.unreachedUntil)
	m.mu.Unlock()
	if resting || ctx.Err() != nil {
		return false
	}
	reply, err := m.request(ctx, k.peer, &wire.MailRequest{Op: wire.MailConsumed, Project: a.key.project, Agent: a.key.agent, File: a.key.file, Hash: a.key.hash})
	switch unreached, ok := errors.AsType[*unreachedError](err); {
	case ok:
		m.mu.Lock()
		defer m.mu.Unlock()
		k.backOffUnreached(unreached.cause)
		return false
	case err == nil && reply.Result == wire.MailRetry && reply.Scope == wire.MailScopeMessage:
		m.mu.Lock()
		defer m.mu.Unlock()
		return k.postpone(a)
	case err != nil || reply.Result == wire.MailRetry:
		return false
	case reply.Result == wire.MailRefused:
		m.cfg.Log.Debug("mail: the sender does not want to hear what became of a message", "peer", k.peer.Label(), "file", a.key.file, "code", reply.Code)
	}
	a.state = reported
	// What is not written would be told again and again; so it comes later.
	return m.writeStore(ctx, func(tx *store.Tx) error { return sqlUpdateArrival(tx, a) }) == nil
}
