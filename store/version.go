package store

import (
	"context"
	"fmt"
)

// ReadVersion returns how many steps all users have taken in this file (see [DB.Migrate]): the
// version of its tables. It is 0 for a new file.
func (db *DB) ReadVersion(ctx context.Context) (version int, err error) {
	return ReadValue(ctx, db, func(tx *Tx) (version int, err error) {
		var begun bool
		if err := tx.QueryRow("SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'store_steps'").Scan(&begun); err != nil || !begun {
			return 0, err
		}
		err = tx.QueryRow("SELECT coalesce(sum(done), 0) FROM store_steps").Scan(&version)
		return version, err
	})
}

// ReadMark returns the number that [DB.WriteMark] has written, 0 if it was never called.
func (db *DB) ReadMark(ctx context.Context) (mark int, err error) {
	return ReadValue(ctx, db, func(tx *Tx) (mark int, err error) {
		err = tx.QueryRow("PRAGMA user_version").Scan(&mark)
		return mark, err
	})
}

// WriteMark writes a number into the header of the file, as user_version, where programs find it
// that cannot read tables.
func (db *DB) WriteMark(ctx context.Context, mark int) error {
	return db.Write(ctx, true, func(tx *Tx) error {
		// Not through the statement cache: a PRAGMA takes no arguments, and this runs once.
		_, err := tx.conn.ExecContext(context.Background(), fmt.Sprintf("PRAGMA user_version = %d", mark))
		return err
	})
}
