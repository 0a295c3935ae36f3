package store

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/internal/ownwords"
)

// errClosed is the error of every use after Close.
var errClosed = ownwords.New("the database is closed")

// corruptError means that the file is damaged, or not a database.
type corruptError struct {
	Path    string
	Problem string // what SQLite found
}

func (e *corruptError) Error() string {
	return fmt.Sprintf("store: %s is damaged (%s): move it away together with its -wal and -shm files and start again without what it held; or restore a copy, or try \".recover\" of the sqlite3 tool on it",
		e.Path, e.Problem)
}

// OwnWords returns the text.
func (e *corruptError) OwnWords() string { return e.Error() }

// explainError adds the operation to an error of the database and, if one is known, the
// remedy.
func (db *DB) explainError(op string, err error) error {
	if err == nil {
		return nil
	}
	if fault, ok := db.findFault(op, err); ok {
		return fault
	}
	return ownwords.Errorf("store: %s %s: %w", op, db.path, mapSQLiteError(err))
}

// mapSQLiteError returns an error of SQLite with the words for its code, and any other as it is.
func mapSQLiteError(err error) error {
	if e, ok := err.(*sqlite.Error); ok { // what wraps one has its words
		return ownwords.Explain(err, "SQLite: "+cmp.Or(sqlite.ErrorCodeString[e.Code()&0xff], fmt.Sprintf("code %d", e.Code())))
	}
	return err
}

// explainFault explains err if the file or its disk is at fault. It returns any
// other error of SQLite with the words for its code, and errors of others as they are.
func (db *DB) explainFault(op string, err error) error {
	if fault, ok := db.findFault(op, err); ok {
		return fault
	}
	return mapSQLiteError(err)
}

// findFault explains err if the file or its disk is at fault.
func (db *DB) findFault(op string, err error) (fault error, found bool) {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return nil, false
	}
	code := e.Code() & 0xff
	switch code {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return &corruptError{Path: db.path, Problem: ownwords.Of(mapSQLiteError(err))}, true
	case sqlite3.SQLITE_FULL:
		return db.newFullDiskError(op, syscall.ENOSPC, err), true
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		// SQLite does not pass on the error of the system.
		if no, ok := errors.AsType[syscall.Errno](db.probeFileGrowth()); ok && disk.IsFullError(no) {
			return db.newFullDiskError(op, no, err), true
		}
		if code == sqlite3.SQLITE_IOERR {
			return ownwords.Errorf("store: %s: the disk under %s fails: see the system log: %w", op, db.path, mapSQLiteError(err)), true
		}
	}
	return nil, false
}

// newFullDiskError returns the error for a full disk. The error of the system is in its chain.
func (db *DB) newFullDiskError(op string, no syscall.Errno, err error) error {
	return ownwords.Errorf("store: %s: %s cannot grow: %w: free some space on its disk (%w)", op, db.path, no, mapSQLiteError(err))
}

// probeFileGrowth writes a file next to the database, as large as the steps in which the index of
// SQLite's log grows, and removes it.
func (db *DB) probeFileGrowth() error {
	path := db.path + growSuffix
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	_, err = f.Write(make([]byte, 32<<10))
	return errors.Join(err, f.Close())
}

// growSuffix ends the name of the file that probeFileGrowth writes. A crash may leave that file;
// OpenDB removes it.
const growSuffix = "-space"
