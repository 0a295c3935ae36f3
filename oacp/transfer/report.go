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

// reportLoop tells a peer, until ctx ends, what is consumed of its mail, and how the agents
// are that live here and have to do with it.
func (m *Mailer) reportLoop(ctx context.Context, q *peerQueue) {
	var pause time.Duration // since the peer does not take reports, or the store does not give them
	backOff := func() {
		pause = min(max(2*pause, firstPause), longestRetry)
		_ = pace.Sleep(ctx, jitter(pause))
	}
	for ctx.Err() == nil {
		all, wait := m.ledger.takeReports(q)
		if wait > 0 {
			waitFor(ctx, q.reportSignal, wait)
			continue
		}
		if len(all) == 0 {
			var err error
			if all, err = m.readUnreported(ctx, q); err != nil {
				m.ledger.endReports(q, nil)
				backOff()
				continue
			}
		}
		left := m.reportAll(ctx, q, all)
		more, wait, next := m.ledger.endReports(q, left) // the next round begins with others
		if len(left) < len(all) {
			pause = 0
		}
		switch {
		case len(left) == 0:
			m.announceAgents(ctx, q)
		case wait == 0: // it says that it cannot take them now
			backOff()
			continue
		}
		if !more {
			if wait == 0 {
				wait = next
			}
			waitFor(ctx, q.reportSignal, wait)
		}
	}
}

// readUnreported returns what the store has to be reported to a peer, some of it.
func (m *Mailer) readUnreported(ctx context.Context, q *peerQueue) (all []*arrival, err error) {
	if !m.ledger.takeUnread(q) {
		return nil, nil
	}
	err = m.readStore(ctx, func(tx *store.Tx) (err error) {
		all, err = sqlUnreported(tx, q.peer, maxReportsKept)
		return err
	})
	return m.ledger.addUnread(q, all, err != nil || len(all) == maxReportsKept), err
}

// reportAll reports arrivals as consumed, several at a time, and returns what could not be
// reported: after the first that the peer does not take it is asked to take no further ones.
func (m *Mailer) reportAll(ctx context.Context, q *peerQueue, all []*arrival) (left []*arrival) {
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
			if m.reportArrival(ctx, q, a) {
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

// reportArrival reports one arrival as consumed, and reports whether that is done with, or
// postponed.
func (m *Mailer) reportArrival(ctx context.Context, q *peerQueue, a *arrival) bool {
	if m.ledger.isBackingOff(q) || ctx.Err() != nil {
		return false
	}
	reply, err := m.request(ctx, q.peer, &wire.MailRequest{Op: wire.MailConsumed, Project: a.key.project, Agent: a.key.agent, File: a.key.file, Hash: a.key.hash})
	switch unreached, ok := errors.AsType[*unreachedError](err); {
	case ok:
		m.ledger.noteUnreached(q, unreached.cause)
		return false
	case err == nil && reply.Result == wire.MailRetry && reply.Scope == wire.MailScopeMessage:
		return m.ledger.postpone(q, a)
	case err != nil || reply.Result == wire.MailRetry:
		return false
	case reply.Result == wire.MailRefused:
		m.cfg.Log.Debug("mail: the sender does not want to hear what became of a message", "peer", q.peer.Label(), "file", a.key.file, "code", reply.Code)
	}
	a.state = reported
	// What is not written would be reported again and again; so it comes later.
	return m.writeStore(ctx, func(tx *store.Tx) error { return sqlUpdateArrival(tx, a) }) == nil
}
