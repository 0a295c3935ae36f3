package store

import (
	"context"
	"database/sql"
	"time"
)

type requesterKey struct{}

// WithRequester returns a context for writes and reads on behalf of a requester, a comparable
// value: the peer that asked for them. Writes and reads without such a context belong to the
// daemon and its agents. Requesters take turns, so that none holds up the others.
func WithRequester(ctx context.Context, who any) context.Context {
	return context.WithValue(ctx, requesterKey{}, who)
}

// requesterOf returns the requester that WithRequester put into ctx; nil: the daemon itself.
func requesterOf(ctx context.Context) any { return ctx.Value(requesterKey{}) }

// Cost is what one write cost.
type Cost struct {
	Requester any // as given to [WithRequester]; nil: the daemon itself
	Rows      int // changed
	Bytes     int // of the values that its statements were given
}

// ObserveWrites makes the writer call f after every write that was kept or undone, and wait for
// it. It is for tests and is called before the first write.
func (db *DB) ObserveWrites(f func(Cost)) { db.writer.observe = f }

// Commit says what one commit was.
type Commit struct {
	Writes int // that it holds, the failed ones too
	Took   time.Duration
	Failed bool // nothing of it was kept
}

// ObserveCommits makes the writer call f after every commit, and wait for it. f must be quick. It
// is called before the first write.
func (db *DB) ObserveCommits(f func(Commit)) { db.writer.observeCommits = f }

func (c *Cost) addStatement(r sql.Result, args []any) {
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
