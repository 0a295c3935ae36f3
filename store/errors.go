package store

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrClosed is the error of every use after Close.
var ErrClosed = errors.New("the database is closed")

// CorruptError says that the file is damaged, or is no database.
type CorruptError struct {
	Path    string
	Problem string // what SQLite found
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("store: %s is damaged (%s): move it away together with its -wal and -shm files and start again without what it held; or restore a copy, or try \".recover\" of the sqlite3 tool on it",
		e.Path, e.Problem)
}

// explain gives an error of the database its operation and, where one is
// known, its remedy.
func (db *DB) explain(op string, err error) error {
	if fault := db.fault(op, err); fault != err || err == nil {
		return fault
	}
	return fmt.Errorf("store: %s %s: %w", op, db.path, err)
}

// fault explains err if the file or its disk is at fault, and returns any
// other as it is.
func (db *DB) fault(op string, err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return &CorruptError{Path: db.path, Problem: e.Error()}
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("store: %s: no space is left for %s: free some on its disk: %w", op, db.path, err)
	case sqlite3.SQLITE_IOERR:
		return fmt.Errorf("store: %s: the disk under %s fails: see the system log: %w", op, db.path, err)
	}
	return err
}
