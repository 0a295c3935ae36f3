package store

import (
	"context"
	"fmt"
	"time"
)

// readerIdle is how long the read connection, about 100 KiB, outlives its
// last use.
const readerIdle = 10 * time.Second

// Read runs fn on the state that the database has when fn first asks, while
// writes go on. fn cannot change anything. Reads take turns, and the log
// cannot be started again while one runs, so fn should be quick; ctx ends
// the waiting and has no effect once fn runs. Its errors are those of
// [DB.Write].
func (db *DB) Read(ctx context.Context, fn func(*Tx) error) error {
	c, err := db.takeReader(ctx)
	if err != nil {
		return fmt.Errorf("store: read: %w", err)
	}
	defer func() {
		db.readerIdle.Reset(readerIdle)
		db.reader <- c
	}()
	if c == nil {
		if c, err = db.connectReader(ctx); err != nil {
			return db.explain("read", err)
		}
	}
	if err := c.do("BEGIN"); err != nil {
		return db.explain("read", err)
	}
	tx := &Tx{conn: c}
	defer func() {
		tx.end()
		if c.do("ROLLBACK") != nil {
			c.close()
			c = nil
		}
	}()
	return db.fault("read", fn(tx))
}

// takeReader waits for the read connection, nil where it must be opened.
func (db *DB) takeReader(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case c, ok := <-db.reader:
		if !ok {
			return nil, ErrClosed
		}
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (db *DB) connectReader(ctx context.Context) (*conn, error) {
	c, err := db.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.do("PRAGMA query_only = ON"); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// dropReader closes the read connection unless somebody reads just now.
func (db *DB) dropReader() {
	select {
	case c, ok := <-db.reader:
		if ok {
			c.close()
			db.reader <- nil
		}
	default:
	}
}
