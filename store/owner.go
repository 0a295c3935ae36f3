package store

import (
	"context"
	"database/sql"
)

type ownerKey struct{}

// For returns a context for writes and reads on behalf of who, a comparable value: the
// peer that asked for them. Writes and reads without such a context are those of the
// daemon and its agents. Owners take turns, so that none holds up the others.
func For(ctx context.Context, who any) context.Context {
	return context.WithValue(ctx, ownerKey{}, who)
}

// ownerOf returns the owner that For put into ctx; nil: the daemon itself.
func ownerOf(ctx context.Context) any { return ctx.Value(ownerKey{}) }

// Cost counts what one write did.
type Cost struct {
	For   any // as given to [For]; nil: the daemon itself
	Rows  int // changed
	Bytes int // of the values that its statements were given
}

// Observe makes the writer call f after every write that was kept or undone, and wait for
// it. It is for tests and is called before the first write.
func (db *DB) Observe(f func(Cost)) { db.writer.observe = f }

func (c *Cost) countStatement(r sql.Result, args []any) {
	if n, err := r.RowsAffected(); err == nil {
		c.Rows += int(n)
	}
	for _, a := range args {
		switch v := a.(type) {
		case string:
			c.Bytes += len(v)
		case []byte:
			c.Bytes += len(v)
		default:
			c.Bytes += 8
		}
	}
}
