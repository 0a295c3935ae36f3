package delegation

import (
	"context"
	"slices"

	"github.com/acpd/acpd/store"
)

// Open is a delegation that is not over, with the beginning of its text.
type Open struct {
	*Delegation
	Task string
}

// ListOpen returns the delegations that are not over and match, the oldest first, at most so many.
// match calls nothing of the table.
func (ts *Table) ListOpen(ctx context.Context, most int, match func(*Delegation) bool) ([]Open, error) {
	ts.mu.Lock()
	var all []Open
	for _, t := range ts.table {
		if !t.isOverNow() && match(t) {
			all = append(all, Open{Delegation: t})
		}
	}
	ts.mu.Unlock()
	slices.SortFunc(all, func(a, b Open) int { return a.Created.Compare(b.Created) })
	all = all[:min(len(all), most)]
	if len(all) == 0 {
		return nil, nil
	}
	return all, ts.db.Read(ctx, func(tx *store.Tx) (err error) {
		for i := range all {
			if all[i].Task, err = readTaskText(tx, all[i].Row); err != nil {
				return err
			}
		}
		return nil
	})
}
