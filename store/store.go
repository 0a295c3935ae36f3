// Package store keeps the daemon's one database, the SQLite file state.db.
//
// It opens the file, brings its schema up to date, and runs writes and reads
// on it. It knows nothing of what is stored: each user keeps its tables and
// its SQL in a sql.go of its own and prefixes its tables with its own name.
//
// # Guarantees
//
// All writes go through one connection, in the order in which they were
// asked for. Writes that wait at the same time are committed together, so a
// burst costs few fsyncs; each has a savepoint of its own, so one that fails
// takes no other with it. [DB.Write] returns when the commit that contains
// its write is done. A durable write then survives a loss of power, any other
// the death of the process. A write that has returned is seen by every read
// that begins afterwards, and a read sees one state from its beginning to its
// end.
//
// An idle store runs nothing, and holds one connection with a page cache of
// at most 256 KiB. The write-ahead log is kept near 4 MiB and is gone after
// [DB.Close].
//
// # What it leaves to others
//
// That one process alone uses the file (the daemon's lock), and what to do
// with a damaged file: Open reports a [CorruptError] and touches nothing.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"
)

// settings are what every connection runs first. The log is copied into the
// file, and started again, at 1,000 pages.
const settings = `
PRAGMA busy_timeout = 5000;
PRAGMA synchronous = NORMAL;
PRAGMA cache_size = -256;
PRAGMA temp_store = MEMORY;
PRAGMA foreign_keys = ON;
PRAGMA trusted_schema = OFF;
PRAGMA wal_autocheckpoint = 1000;
PRAGMA journal_size_limit = 4194304;
`

// DB is an open state.db. Its methods may be called from any goroutine.
type DB struct {
	path   string
	pool   *sql.DB // opens connections and keeps none
	close  func() error
	writer writer

	// reader holds the one read connection while nobody reads, or nil where
	// none is open; it is closed by Close. Who takes the value out owns it.
	reader     chan *conn
	readerIdle *time.Timer // closes an unused read connection
}

// Open opens the file at path, and creates it with mode 0600 if there is
// none. It checks the structure of the whole file, which reads all of it; a
// damaged one is a [*CorruptError]. The caller closes the DB.
func Open(ctx context.Context, path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	if err := private(path); err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	// As a URI, so that no character of the path is taken for an option.
	uri := url.URL{Scheme: "file", OmitHost: true, Path: path}
	connector, err := sqlite.NewConnector(uri.String())
	if err != nil {
		return nil, fmt.Errorf("store: open %s: %w", path, err)
	}
	db := &DB{path: path, pool: sql.OpenDB(connector), reader: make(chan *conn, 1)}
	db.pool.SetMaxIdleConns(-1)
	db.writer.drained = make(chan struct{})
	db.writer.conn, err = db.connect(ctx)
	if err == nil {
		err = db.prepare(ctx)
	}
	if err != nil {
		db.writer.conn.close()
		db.pool.Close()
		return nil, db.explain("open", err)
	}
	db.reader <- nil
	db.readerIdle = time.AfterFunc(readerIdle, db.dropReader)
	db.readerIdle.Stop()
	db.close = sync.OnceValue(db.shut)
	return db, nil
}

// private creates path with mode 0600, or takes a looser mode from it. SQLite
// gives the mode of the database to the files that it makes beside it.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file: move it away", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return f.Chmod(0o600)
	}
	return nil
}

// connect opens a connection.
func (db *DB) connect(ctx context.Context) (*conn, error) {
	c, err := db.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.ExecContext(ctx, settings); err != nil {
		c.Close()
		return nil, err
	}
	return &conn{Conn: c, stmts: make(map[string]*sql.Stmt)}, nil
}

// prepare checks the file and turns the write-ahead log on.
func (db *DB) prepare(ctx context.Context) error {
	var mode, problem string
	if err := db.writer.conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return errors.New("the file system cannot share memory between connections: keep the state directory on a local disk")
	}
	if err := db.writer.conn.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&problem); err != nil {
		return err
	}
	if problem != "ok" {
		return &CorruptError{Path: db.path, Problem: problem}
	}
	return nil
}

// Close lets the writes and the read that have begun finish, moves the log
// into the file and closes it. Whoever calls later gets [ErrClosed]; a
// second Close waits for the first and returns what it returned.
func (db *DB) Close() error { return db.close() }

func (db *DB) shut() error {
	db.writer.stop()
	reader := <-db.reader
	close(db.reader)
	db.readerIdle.Stop()
	// The writer goes last: the last connection removes the log.
	return db.explain("close", errors.Join(reader.close(), db.writer.conn.close(), db.pool.Close()))
}
