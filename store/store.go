// Package store keeps the daemon's one database, the SQLite file state.db.
//
// It opens the file, brings its schema up to date, and runs writes and reads
// on it. It knows nothing of what is stored: each user has its own SQL, and
// prefixes its tables with its own name.
//
// # Guarantees
//
// All writes go through one connection, in the order in which they were
// asked for. Writes that wait at the same time are committed together, so a
// burst costs few fsyncs; each has a savepoint of its own, so one that fails
// takes no other with it. Peers take turns with each other and with the daemon
// itself: see [WithRequester]. [DB.Write] returns when the commit that contains
// its write is done. A durable write then survives a loss of power, any other
// the death of the process. A write that has returned is seen by every read
// that begins afterwards, and a read sees one state from its beginning to its
// end.
//
// An idle store runs nothing, and holds one connection with a page cache of
// at most 256 KiB. The write-ahead log is kept near 4 MiB, 16 MiB at most while much is
// written, and is empty after [DB.Close]. It is copied into the file while writes continue.
//
// # What it leaves to others
//
// That only one process uses the file (the daemon's lock), and what to do
// with a damaged file: OpenDB reports a [corruptError] and touches nothing.
package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/internal/ownwords"
)

// settings are the statements that every connection runs first. At 4,000 pages of log, which
// [walCopy] could not copy, a commit copies them itself.
const settings = `
PRAGMA busy_timeout = 5000;
PRAGMA synchronous = NORMAL;
PRAGMA cache_size = -256;
PRAGMA temp_store = MEMORY;
PRAGMA foreign_keys = ON;
PRAGMA trusted_schema = OFF;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 4194304;
`

// DB is an open state.db. Its methods may be called from any goroutine.
type DB struct {
	path    string
	pool    *sql.DB // opens connections and keeps none
	close   func() error
	writer  writer
	readers *readerPool
	log     walCopy

	unchecked bool // the file was too large to be checked
	oneConn   bool // the writer's connection is the only one that there can be
}

// checkTime bounds the check of the whole file when it is opened: a large file on a slow
// disk would else keep a daemon from its start for minutes. Damage in the rest is found when
// it is used.
const checkTime = 2 * time.Second

// OpenDB opens the file at path, or creates it with mode 0600. It checks the
// structure of the file, as much of it as can be read in 2 s; a damaged one is a
// [*corruptError]. To open a file that was there before needs no space on the disk. The
// caller closes the DB.
func OpenDB(ctx context.Context, path string) (*DB, error) {
	return openDBWithCheckTime(ctx, path, checkTime)
}

func openDBWithCheckTime(ctx context.Context, path string, check time.Duration) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, ownwords.Errorf("store: open: %w", err)
	}
	if err := ensurePrivateFile(path); err != nil {
		return nil, ownwords.Errorf("store: open: %w", err)
	}
	if err := os.Remove(path + growSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, ownwords.Errorf("store: open: %w", err)
	}
	// As a URI, so that no character of the path is taken for an option.
	uri := url.URL{Scheme: "file", OmitHost: true, Path: path}
	connector, err := sqlite.NewConnector(uri.String())
	if err != nil {
		return nil, ownwords.Errorf("store: open %s: %w", path, err)
	}
	db := &DB{path: path, pool: sql.OpenDB(connector), readers: newReaderPool()}
	db.pool.SetMaxIdleConns(-1)
	db.writer.drained = make(chan struct{})
	err = db.openWriter(ctx, check)
	if disk.IsFullError(err) {
		// Connections share a file that cannot be created: a single one needs no such file.
		db.oneConn = true
		err = db.openWriter(ctx, check)
	}
	if err != nil {
		db.pool.Close()
		return nil, err
	}
	db.close = sync.OnceValue(db.closeConns)
	return db, nil
}

// openWriter opens the writer's connection.
func (db *DB) openWriter(ctx context.Context, check time.Duration) (err error) {
	if db.writer.conn, err = db.connect(ctx); err != nil {
		return db.explainError("open", err)
	}
	if err := db.prepareFile(ctx, check); err != nil {
		db.writer.conn.close()
		return db.explainError("open", err)
	}
	return nil
}

// ensurePrivateFile creates path with mode 0600, or takes a looser mode from it. SQLite
// gives the mode of the database to the files that it adds.
func ensurePrivateFile(path string) error {
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
		return ownwords.Errorf("%s is no regular file: move it away", path)
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
	first := settings
	if db.oneConn {
		first = "PRAGMA locking_mode = EXCLUSIVE;" + settings + "PRAGMA wal_autocheckpoint = 1000;" // the mode before anything is read
	}
	if _, err := c.ExecContext(ctx, first); err != nil {
		c.Close()
		return nil, err
	}
	return &conn{Conn: c, stmts: make(map[string]*sql.Stmt)}, nil
}

// prepareFile turns the write-ahead log on and checks the file.
func (db *DB) prepareFile(ctx context.Context, check time.Duration) error {
	// The log stays when the file is closed, as it does in a crash: on a disk that is
	// full by then it could not be made again.
	if err := db.writer.conn.Raw(func(c any) error {
		_, err := c.(sqlite.FileControl).FileControlPersistWAL("main", 1)
		return err
	}); err != nil {
		return err
	}
	var mode string
	if err := db.writer.conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return ownwords.New("the file system cannot share memory between connections: keep the state directory on a local disk")
	}
	return db.checkStructure(ctx, check)
}

// checkStructure searches the file for damage, for limit at most.
func (db *DB) checkStructure(ctx context.Context, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var problem string
	err := db.writer.conn.QueryRowContext(limited, "PRAGMA quick_check(1)").Scan(&problem)
	switch {
	case err != nil && limited.Err() != nil:
		db.unchecked = true
		return ctx.Err()
	case err != nil:
		return err
	case problem != "ok":
		return &corruptError{Path: db.path, Problem: problem}
	}
	return nil
}

// HasOneConn reports whether the file was opened on a full disk, with one connection: reads
// take turns with writes until it is opened again.
func (db *DB) HasOneConn() bool { return db.oneConn }

// IsChecked reports whether the whole file was checked for damage when it was opened.
func (db *DB) IsChecked() bool { return !db.unchecked }

// Close lets the writes and the reads that have begun finish, moves the log
// into the file and closes it. Later calls get [errClosed]; a second Close waits for
// the first and returns what it returned.
func (db *DB) Close() error { return db.close() }

func (db *DB) closeConns() error {
	db.writer.stopAccepting()
	db.log.work.Wait()
	// The writer goes last: the last connection empties the log.
	return db.explainError("close", errors.Join(db.readers.close(), db.writer.conn.close(), db.pool.Close()))
}
