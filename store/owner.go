package store

import (
	"context"
	"database/sql"
)

type ownerKey struct{}

// For returns a context for writes and reads on behalf of who, a comparable value:
// the peer that asked for them. What has no such context is the daemon's own, and
// its agents'. Owners take turns, so that none holds up the others.
func For(ctx context.Context, who any) context.Context {
	return context.WithValue(ctx, ownerKey{}, who)
}

// ownerOf returns on whose behalf ctx is; nil: the daemon's own.
func ownerOf(ctx context.Context) any { return ctx.Value(ownerKey{}) }

// Cost is what one write did.
type Cost struct {
	For   any // as given to [For]; nil: the daemon itself
	Rows  int // changed
	Bytes int // of the values that its statements were given
}

// Observe has f told of every write that was kept or undone, in the writer's
// goroutine, which waits for it. It is for tests and is set before the first write.
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
