package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"github.com/acpd/acpd/internal/ownwords"
)

const (
	copyStep     = 256       // pages that are copied before the next look at what may end a copy
	syncStep     = 8         // steps after which the copy is synced: at the end, commits would wait for all of it
	maxLogBeside = 256 << 20 // bytes of the log during a copy, while it cannot be started again
)

// Copy writes the database as it is when Copy begins into a new file at path, which has mode
// 0600 and is durable when Copy returns nil. Writes and reads go on meanwhile; the log grows by
// what is written, and at 256 MiB Copy fails. It asks mayGoOn before each MiB, and ends with its
// error, or with that of ctx. If Copy fails, it leaves no file.
func (db *DB) Copy(ctx context.Context, path string, mayGoOn func() error) (err error) {
	if db.oneConn {
		return ownwords.Errorf("store: copy: %s was opened on a full disk: free some space, start acpd again, then repeat this", db.path)
	}
	if path, err = filepath.Abs(path); err != nil {
		return ownwords.Errorf("store: copy: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return ownwords.Errorf("store: copy: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			os.Remove(path)
		}
	}()
	c, err := db.connectReader(ctx)
	if err != nil {
		return db.explainError("copy", err)
	}
	defer c.close()
	// The transaction holds one state from the first page to the last.
	if err := c.execControl("BEGIN"); err != nil {
		return db.explainError("copy", err)
	}
	defer c.execControl("ROLLBACK")
	if err := c.QueryRowContext(ctx, "SELECT 1 FROM sqlite_schema LIMIT 1").Scan(new(int)); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return db.explainError("copy", err)
	}
	if err := db.copyPages(ctx, c, f, mayGoOn); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return ownwords.Errorf("store: copy: %w", err)
	}
	return nil
}

// copyPages copies all pages that the transaction on c sees into the file f.
func (db *DB) copyPages(ctx context.Context, c *conn, f *os.File, mayGoOn func() error) error {
	// Nobody sees the copy before it is whole: it needs neither a journal nor fsyncs of SQLite's.
	to := url.URL{Scheme: "file", OmitHost: true, Path: f.Name(), RawQuery: "_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)"}
	return c.Raw(func(driver any) error {
		run, err := driver.(interface {
			NewBackup(to string) (*sqlite.Backup, error)
		}).NewBackup(to.String())
		if err != nil {
			return db.explainError("copy", err)
		}
		err = db.stepCopy(ctx, run, f, mayGoOn)
		if ended := run.Finish(); err == nil && ended != nil {
			err = db.explainError("copy", ended)
		}
		return err
	})
}

func (db *DB) stepCopy(ctx context.Context, run *sqlite.Backup, f *os.File, mayGoOn func() error) error {
	for i := 1; ; i++ {
		if err := ctx.Err(); err != nil {
			return ownwords.Errorf("store: copy: %w", err)
		}
		if err := mayGoOn(); err != nil {
			return err
		}
		if log, err := os.Stat(db.path + "-wal"); err == nil && log.Size() > maxLogBeside {
			return ownwords.Errorf("store: copy: %d MiB were written meanwhile, more than may wait in the log: try again when less is written", log.Size()>>20)
		}
		more, err := run.Step(copyStep)
		if err != nil {
			return db.explainError("copy", err)
		}
		if !more {
			return nil
		}
		if i%syncStep == 0 {
			if err := f.Sync(); err != nil {
				return ownwords.Errorf("store: copy: %w", err)
			}
		}
	}
}
