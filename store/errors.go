package store

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/acpd/acpd/disk"
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

// explainError gives an error of the database its operation and, where one is
// known, its remedy.
func (db *DB) explainError(op string, err error) error {
	if fault := db.explainFault(op, err); fault != err || err == nil {
		return fault
	}
	return fmt.Errorf("store: %s %s: %w", op, db.path, err)
}

// explainFault explains err if the file or its disk is at fault, and returns any
// other as it is.
func (db *DB) explainFault(op string, err error) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	code := e.Code() & 0xff
	switch code {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return &CorruptError{Path: db.path, Problem: e.Error()}
	case sqlite3.SQLITE_FULL:
		return db.fullDiskError(op, syscall.ENOSPC, err)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		// SQLite keeps to itself what the system told it.
		if no, ok := errors.AsType[syscall.Errno](db.testGrowth()); ok && disk.IsFull(no) {
			return db.fullDiskError(op, no, err)
		}
		if code == sqlite3.SQLITE_IOERR {
			return fmt.Errorf("store: %s: the disk under %s fails: see the system log: %w", op, db.path, err)
		}
	}
	return err
}

// fullDiskError says that there is no space, by the system's word for it, which is in the
// error's chain.
func (db *DB) fullDiskError(op string, no syscall.Errno, err error) error {
	return fmt.Errorf("store: %s: %s cannot grow: %w: free some space on its disk (%w)", op, db.path, no, err)
}

// testGrowth writes a file beside the database, as large as the steps in which the index of
// SQLite's log grows, and removes it.
func (db *DB) testGrowth() error {
	path := db.path + growSuffix
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	_, err = f.Write(make([]byte, 32<<10))
	return errors.Join(err, f.Close())
}

// growSuffix is what the name of grow's file ends with. A crash may leave it; Open
// removes it.
const growSuffix = "-space"
