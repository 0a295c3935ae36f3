package transfer

import (
	"context"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/store"
)

// pruneLoop forgets what has been over for long, until ctx ends.
func (m *Mailer) pruneLoop(ctx context.Context) {
	for ctx.Err() == nil {
		m.prune(ctx)
		_ = pace.Sleep(ctx, pruneEvery)
	}
}

// prune forgets what has been over for long, by and by.
func (m *Mailer) prune(ctx context.Context) {
	before := time.Now().Add(-retention)
	for _, u := range m.cfg.Budget.Usage() {
		for u.Row.Name == budget.MailLedger.Name && ctx.Err() == nil && m.forgetReported(ctx, u.Peer, before) == pruneSlice {
		}
	}
	for ctx.Err() == nil {
		n := 0
		err := m.writeStore(ctx, func(tx *store.Tx) (err error) {
			n, err = sqlPruneDelivered(tx, before, pruneSlice)
			return err
		})
		if err != nil || n < pruneSlice {
			return
		}
	}
}

// pruneSlice is how many rows one write removes: the daemon has one writer.
const pruneSlice = 64

// forgetReported removes from the store up to pruneSlice messages of a peer that have been
// over since before, and returns how many.
func (m *Mailer) forgetReported(ctx context.Context, who identity.ID, before time.Time) (n int) {
	err := m.writeStore(ctx, func(tx *store.Tx) (err error) {
		n, err = sqlForgetReported(tx, who, before, pruneSlice)
		return err
	})
	if err != nil {
		return 0
	}
	m.accounts.arrivals.Give(who, int64(n))
	return n
}

// reserveRow takes a row of the store for a message of a peer. If none is left, old rows of the
// same peer make room: no sender repeats those.
func (m *Mailer) reserveRow(ctx context.Context, who identity.ID) error {
	err := m.accounts.arrivals.Take(who, 1)
	if err == nil {
		return nil
	}
	if n := m.forgetReported(ctx, who, time.Now().Add(-shortRetention)); n == 0 {
		return exceeded(err, remedyArrivals)
	}
	if err := m.accounts.arrivals.Take(who, 1); err != nil {
		return exceeded(err, remedyArrivals)
	}
	return nil
}
