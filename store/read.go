package store

import (
	"context"
	"fmt"
)

// Read runs fn on the state that the database has when fn first asks, while
// writes go on. fn cannot change anything. A few reads run at a time, fewer of
// one peer (see [For]); the log cannot be started again while one runs, so fn
// should be quick. ctx ends the waiting and has no effect once fn runs. Its
// errors are those of [DB.Write].
func (db *DB) Read(ctx context.Context, fn func(*Tx) error) error {
	c, err := db.readers.takeConn(ctx)
	if err != nil {
		return fmt.Errorf("store: read: %w", err)
	}
	defer func() { db.readers.giveConn(ownerOf(ctx), c) }()
	if c == nil {
		if db.alone {
			return db.readInTurn(ctx, fn)
		}
		if c, err = db.connectReader(ctx); err != nil {
			return db.readInTurn(ctx, fn)
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

// readInTurn reads with the connection of the writer, between writes: where there is
// no other to be had, for lack of descriptors or of space for what connections share.
func (db *DB) readInTurn(ctx context.Context, fn func(*Tx) error) error {
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
