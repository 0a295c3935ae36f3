package store

import (
	"context"

	"github.com/acpd/acpd/internal/ownwords"
)

// Read runs fn on the state that the database has when fn first asks, while
// writes go on. fn cannot change anything. A few reads run at a time, fewer of
// one peer (see [WithRequester]); the log cannot be started again while one runs, so fn
// should be quick. ctx ends the waiting and has no effect once fn runs. Its
// errors are those of [DB.Write].
func (db *DB) Read(ctx context.Context, fn func(*Tx) error) error {
	c, err := db.readers.acquireConn(ctx)
	if err != nil {
		return ownwords.Errorf("store: read: %w", err)
	}
	defer func() { db.readers.releaseConn(requesterOf(ctx), c) }()
	if c == nil {
		if db.oneConn {
			return db.readOnWriterConn(ctx, fn)
		}
		if c, err = db.connectReader(ctx); err != nil {
			return db.readOnWriterConn(ctx, fn)
		}
	}
	if err := c.execControl("BEGIN"); err != nil {
		return db.explainError("read", err)
	}
	tx := &Tx{conn: c}
	defer func() {
		tx.invalidate()
		if c.execControl("ROLLBACK") != nil {
			c.close()
			c = nil
		}
	}()
	return db.explainFault("read", fn(tx))
}

// ReadValue runs fn as [DB.Read] does, and returns what fn returns.
func ReadValue[T any](ctx context.Context, db *DB, fn func(*Tx) (T, error)) (value T, err error) {
	err = db.Read(ctx, func(tx *Tx) (err error) {
		value, err = fn(tx)
		return err
	})
	return value, err
}

func (db *DB) connectReader(ctx context.Context) (*conn, error) {
	c, err := db.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.execControl("PRAGMA query_only = ON"); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// readOnWriterConn reads with the connection of the writer, between writes. It is used if there is
// no other connection, because descriptors or the space that connections share are used up.
func (db *DB) readOnWriterConn(ctx context.Context, fn func(*Tx) error) error {
	return db.Write(ctx, false, func(tx *Tx) error {
		// As text: such a statement does its work when it is compiled.
		c := tx.conn
		if _, err := c.ExecContext(context.Background(), "PRAGMA query_only = ON"); err != nil {
			return err
		}
		defer c.ExecContext(context.Background(), "PRAGMA query_only = OFF")
		return fn(tx)
	})
}
