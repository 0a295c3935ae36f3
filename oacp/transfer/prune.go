package transfer

import (
	"context"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/store"
)

// pruneLoop deletes old rows from the store, once a day, until ctx ends.
func (m *Mailer) pruneLoop(ctx context.Context) {
	for ctx.Err() == nil {
		m.pruneOldRows(ctx)
		_ = pace.Sleep(ctx, pruneEvery)
	}
}

// pruneOldRows deletes the rows of arrivals and deliveries that ended long ago, a few at a time.
func (m *Mailer) pruneOldRows(ctx context.Context) {
	before := time.Now().Add(-retention)
	for _, u := range m.cfg.Budget.ListUsage() {
		for u.Row.Name == budget.MailLedger.Name && ctx.Err() == nil && m.pruneArrivalRows(ctx, u.Peer, before) == pruneSlice {
		}
	}
	deletion := func(tx *store.Tx) (int, error) { return sqlPruneDeliveries(tx, before, pruneSlice) }
	for ctx.Err() == nil && m.deleteRows(ctx, deletion) == pruneSlice {
	}
}

// pruneSlice bounds the rows that one write deletes, because the daemon has one writer.
const pruneSlice = 64

// deleteRows runs a deletion in a write of its own. It returns the number of rows, 0 if it failed.
func (m *Mailer) deleteRows(ctx context.Context, deletion func(*store.Tx) (int, error)) (n int) {
	err := m.writeStore(ctx, func(tx *store.Tx) (err error) {
		n, err = deletion(tx)
		return err
	})
	if err != nil {
		return 0
	}
	return n
}

// pruneArrivalRows deletes up to pruneSlice arrivals of a peer that ended before a time, and
// returns their number.
func (m *Mailer) pruneArrivalRows(ctx context.Context, who identity.ID, before time.Time) int {
	n := m.deleteRows(ctx, func(tx *store.Tx) (int, error) { return sqlPruneArrivals(tx, who, before, pruneSlice) })
	m.ledger.accounts.arrivals.Release(who, int64(n))
	return n
}

// reserveArrivalRow takes a row of the store for a message of a peer. If none is left, it deletes
// rows of the same peer that are so old that their messages do not come again.
func (m *Mailer) reserveArrivalRow(ctx context.Context, who identity.ID) error {
	err := m.ledger.accounts.arrivals.Reserve(who, 1)
	if err != nil && m.pruneArrivalRows(ctx, who, time.Now().Add(-shortRetention)) > 0 {
		err = m.ledger.accounts.arrivals.Reserve(who, 1)
	}
	if err != nil {
		return newOverloadedError(err, remedyArrivals)
	}
	return nil
}
