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

// reportLoop reports to a peer, until ctx ends, which of its mail is consumed, and the statuses
// of the agents that live here.
func (m *Mailer) reportLoop(ctx context.Context, q *peerQueue) {
	var pause time.Duration // while the peer does not take reports, or the store cannot be read
	backOff := func() {
		pause = min(max(2*pause, firstPause), longestRetry)
		_ = pace.Sleep(ctx, randomizePause(pause))
	}
	for ctx.Err() == nil {
		all, ask, wait := m.ledger.takeDueReports(q)
		if wait > 0 {
			waitForSignal(ctx, q.reportSignal, wait)
			continue
		}
		if ask {
			var err error
			if all, err = m.readUnreportedArrivals(ctx, q); err != nil {
				m.ledger.requeueReports(q, nil)
				backOff()
				continue
			}
		}
		left := m.reportArrivals(ctx, q, all)
		more, wait, next := m.ledger.requeueReports(q, left) // the next round begins with others
		if len(left) < len(all) {
			pause = 0
		}
		switch {
		case len(left) == 0:
			m.announceAgents(ctx, q)
		case wait == 0: // it cannot take them now
			backOff()
			continue
		}
		if !more {
			if wait == 0 {
				wait = next
			}
			waitForSignal(ctx, q.reportSignal, wait)
		}
	}
}

// readUnreportedArrivals returns some of the reports for a peer that the store has.
func (m *Mailer) readUnreportedArrivals(ctx context.Context, q *peerQueue) (all []*arrival, err error) {
	err = m.readStore(ctx, func(tx *store.Tx) (err error) {
		all, err = sqlListUnreportedArrivals(tx, q.peer, maxReportsKept)
		return err
	})
	return m.ledger.dropPostponedReports(q, all, err != nil || len(all) == maxReportsKept), err
}

// reportArrivals reports arrivals as consumed, several at a time, and returns those that it could
// not report. After the first that the peer does not take, it sends no more.
func (m *Mailer) reportArrivals(ctx context.Context, q *peerQueue, all []*arrival) (left []*arrival) {
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

// reportArrival reports to the peer that one arrival is consumed. done is set if the report was
// made or postponed.
func (m *Mailer) reportArrival(ctx context.Context, q *peerQueue, a *arrival) (done bool) {
	if m.ledger.isQueueBackingOff(q) || ctx.Err() != nil {
		return false
	}
	reply, err := m.sendRequest(ctx, q.peer, &wire.MailRequest{Op: wire.MailConsumed, Project: a.key.project, Agent: a.key.agent, File: a.key.file, Hash: a.key.hash})
	switch unreached, ok := errors.AsType[*unreachableError](err); {
	case ok:
		m.ledger.markPeerUnreachable(q, unreached.cause)
		return false
	case err == nil && reply.Result == wire.MailRetry && reply.Scope == wire.MailScopeMessage:
		return m.ledger.postponeReport(q, a)
	case err != nil || reply.Result == wire.MailRetry:
		return false
	case reply.Result == wire.MailRefused:
		m.cfg.Log.Debug("mail: the sender asked for no report on a message", "peer", q.peer.Label(), "file", a.key.file, "code", reply.Code)
	}
	a.state = reported
	// If the write fails, the arrival is reported again later.
	return m.writeStore(ctx, func(tx *store.Tx) error { return sqlUpdateArrival(tx, a) }) == nil
}
