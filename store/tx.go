package store

import (
	"context"
	"database/sql"
	"errors"
)

// maxStmts bounds the statements that a connection keeps prepared. SQL is
// constant text, so no user comes near it; text beyond it is compiled anew
// each time.
const maxStmts = 256

// conn is a connection and the statements that are prepared on it. One
// goroutine uses it at a time.
type conn struct {
	*sql.Conn
	stmts map[string]*sql.Stmt
}

// prepareStmt returns query prepared, or nil if it must run as text.
func (c *conn) prepareStmt(query string) (*sql.Stmt, error) {
	if s := c.stmts[query]; s != nil || len(c.stmts) >= maxStmts {
		return s, nil
	}
	s, err := c.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

func (c *conn) exec(query string, args ...any) (sql.Result, error) {
	s, err := c.prepareStmt(query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.ExecContext(context.Background(), query, args...)
	}
	return s.ExecContext(context.Background(), args...)
}

// execControl runs a statement that begins or ends a transaction or savepoint.
func (c *conn) execControl(query string) error {
	_, err := c.exec(query)
	return err
}

// close closes the connection and its statements; a nil one is closed.
func (c *conn) close() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.Close())...)
}

// Tx is the database as the transaction of one [DB.Write] or [DB.Read] sees it. Only the
// goroutine that runs the function may use it, and only until that returns. It does not block
// on other writes.
//
// Each text of SQL is compiled once for a connection and kept, so it should
// be constant, with ? for values.
type Tx struct {
	conn *conn
	cost *Cost  // nil unless writes are observed
	w    *write // whose it is; nil in a read
}

// Exec runs one statement.
func (tx *Tx) Exec(query string, args ...any) (sql.Result, error) {
	r, err := tx.conn.exec(query, args...)
	if tx.cost != nil && err == nil {
		tx.cost.addStatement(r, args)
	}
	return r, mapSQLiteError(err)
}

// EachRow runs a statement and calls row for every row that it returns, until one
// fails. scan reads the row, like [sql.Rows.Scan].
func (tx *Tx) EachRow(query string, row func(scan func(...any) error) error, args ...any) error {
	s, err := tx.conn.prepareStmt(query)
	if err != nil {
		return mapSQLiteError(err)
	}
	var rows *sql.Rows
	if s == nil {
		rows, err = tx.conn.QueryContext(context.Background(), query, args...)
	} else {
		rows, err = s.QueryContext(context.Background(), args...)
	}
	if err != nil {
		return mapSQLiteError(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return mapSQLiteError(rows.Err())
}

// ReadRows runs a statement and returns a value for every row that it returns, which row
// reads with scan. If there is an error, the last value may be incomplete.
func ReadRows[T any](tx *Tx, query string, row func(scan func(...any) error) (T, error), args ...any) (all []T, err error) {
	err = tx.EachRow(query, func(scan func(...any) error) error {
		v, err := row(scan)
		all = append(all, v)
		return err
	}, args...)
	return all, err
}

// Blob is a target for scan. It copies a blob into its bytes; the blob has as many.
type Blob []byte

// Scan implements [sql.Scanner].
func (b Blob) Scan(value any) error {
	text, _ := value.([]byte)
	copy(b, text)
	return nil
}

// QueryRow runs a statement that returns at most one row. Scan must be called
// on what it returns, and returns [sql.ErrNoRows] if there was none.
func (tx *Tx) QueryRow(query string, args ...any) *sql.Row {
	s, err := tx.conn.prepareStmt(query)
	if s == nil || err != nil {
		// As text it fails in the same way, and its Scan returns that error.
		return tx.conn.QueryRowContext(context.Background(), query, args...)
	}
	return s.QueryRowContext(context.Background(), args...)
}

// OnUndo registers fn to be called if the write is not kept, because it or its commit fails.
// All such functions of a commit are then called, the last one first, before another write
// begins. So a program can change its memory with each write at once.
// fn may run on another goroutine and must not use the database or panic; in a read OnUndo
// panics.
func (tx *Tx) OnUndo(fn func()) { tx.w.undo = append(tx.w.undo, fn) }

// invalidate makes any later use panic, for it would otherwise happen outside of the
// transaction.
func (tx *Tx) invalidate() { tx.conn, tx.w = nil, nil }
