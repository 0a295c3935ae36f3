package transfer

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// reportLoop reports to a peer, until ctx ends, which of its mail is consumed, and the statuses
// of the agents that live here.
func (m *Mailer) reportLoop(ctx context.Context, q *peerQueue) {
	tries := 0 // rounds that failed since a report was last made
	for ctx.Err() == nil {
		due, wait := m.ledger.beginReports(q)
		if wait > 0 {
			waitForSignal(ctx, q.reportSignal, wait)
			continue
		}
		if due {
			done, err := m.reportConsumed(ctx, q)
			wait = m.ledger.endReports(q, err != nil)
			if done > 0 || err == nil {
				tries = 0
			}
			if err != nil {
				if !m.ledger.isQueueBackingOff(q) {
					_ = pace.Sleep(ctx, computeRetryPause(tries))
				}
				tries++
				continue
			}
		}
		m.announceAgents(ctx, q)
		waitForSignal(ctx, q.reportSignal, wait)
	}
}

const (
	reportBatch  = 100             // reports that are read from the store at a time
	maxPostponed = reportBatch / 2 // reports that have a pause of their own: the rest of a batch can be made
)

// reportConsumed reports all arrivals of the store that are consumed and not reported, without
// those that are postponed. It returns how many reports were made. An error means that the peer
// takes none now, or that the store cannot be read or written.
func (m *Mailer) reportConsumed(ctx context.Context, q *peerQueue) (done int, err error) {
	for {
		var all []*arrival
		err := m.readStore(ctx, func(tx *store.Tx) (err error) {
			all, err = sqlListUnreportedArrivals(tx, q.peer, reportBatch)
			return err
		})
		if err != nil {
			return done, err
		}
		if all = m.ledger.dropPostponedReports(q, all); len(all) == 0 {
			return done, nil
		}
		n, err := m.reportArrivals(ctx, q, all)
		done += n
		if err != nil {
			return done, err
		}
	}
}

// reportArrivals reports arrivals as consumed, several at a time, and returns how many reports
// were made. After the first error it makes no more.
func (m *Mailer) reportArrivals(ctx context.Context, q *peerQueue, all []*arrival) (int, error) {
	var done atomic.Int64
	reports, going := errgroup.WithContext(ctx)
	reports.SetLimit(maxReports)
	for _, a := range all {
		reports.Go(func() error {
			if going.Err() != nil {
				return going.Err()
			}
			ok, err := m.reportArrival(ctx, q, a)
			if ok {
				done.Add(1)
			}
			return err
		})
	}
	err := reports.Wait()
	return int(done.Load()), err
}

// reportArrival reports to the peer that one arrival is consumed. done is not set if the report
// was postponed. An error means that others cannot be made either.
func (m *Mailer) reportArrival(ctx context.Context, q *peerQueue, a *arrival) (done bool, err error) {
	reply, err := m.sendRequest(ctx, q.peer, &wire.MailRequest{Op: wire.MailConsumed, Project: a.key.project, Agent: a.key.agent, File: a.key.file, Hash: a.key.hash})
	switch unreached, ok := errors.AsType[*unreachableError](err); {
	case ok:
		m.ledger.markPeerUnreachable(q, unreached.cause)
		return false, err
	case err != nil:
		return false, err
	case reply.Result == wire.MailRetry && reply.Scope == wire.MailScopeMessage && m.ledger.postponeReport(q, a.key):
		return false, nil
	case reply.Result == wire.MailRetry:
		return false, errNotNow
	case reply.Result == wire.MailRefused:
		m.cfg.Log.Debug("mail: the sender asked for no report on a message", "peer", q.peer.Label(), "file", a.key.file, "code", reply.Code)
	}
	a.state = reported
	// If the write fails, the arrival is reported again later.
	err = m.writeStore(ctx, func(tx *store.Tx) error { return sqlUpdateArrival(tx, a) })
	return err == nil, err
}

// errNotNow means that the peer takes no reports now.
var errNotNow = ownwords.New("the peer takes no reports now")
