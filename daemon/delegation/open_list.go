package delegation

import (
	"context"
	"slices"

	"github.com/acpd/acpd/store"
)

// ListOpen returns the delegations that are not over and match, the oldest first. match calls nothing of
// the table.
func (ts *Table) ListOpen(match func(*Delegation) bool) (all []*Delegation) {
	ts.mu.Lock()
	for _, t := range ts.table {
		if !t.isOverNow() && match(t) {
			all = append(all, t)
		}
	}
	ts.mu.Unlock()
	slices.SortFunc(all, func(a, b *Delegation) int { return a.Created.Compare(b.Created) })
	return all
}

// ReadTasks returns the beginnings of the texts of delegations. It may wait for the database.
func (ts *Table) ReadTasks(ctx context.Context, of []*Delegation) (tasks []string, err error) {
	if len(of) == 0 {
		return nil, nil
	}
	err = ts.db.Read(ctx, func(tx *store.Tx) error {
		for _, t := range of {
			text, err := readTaskText(tx, t.Row)
			if err != nil {
				return err
			}
			tasks = append(tasks, text)
		}
		return nil
	})
	return tasks, err
}
