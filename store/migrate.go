package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/acpd/acpd/internal/ownwords"
)

// Migrate brings the tables of one user of the store up to date. steps is
// everything that user ever did to its schema, oldest first, each one or more
// statements of SQL; a step that has been released is never changed, only
// followed by another. Steps that this file has not seen are applied, all in
// one durable transaction or none. A file that has seen more steps was written
// by a newer version of the program, which is an error. A file that has seen all of
// them is only read: that works on a full disk.
func (db *DB) Migrate(ctx context.Context, user string, steps []string) error {
	if done, err := db.countDoneMigrations(ctx, user); err != nil || done == len(steps) {
		return err
	}
	return db.Write(ctx, true, func(tx *Tx) error {
		if _, err := tx.Exec("CREATE TABLE IF NOT EXISTS store_steps (user TEXT PRIMARY KEY, done INTEGER NOT NULL) STRICT, WITHOUT ROWID"); err != nil {
			return ownwords.Errorf("store: migrate %s: %w", user, err)
		}
		var done int
		err := tx.QueryRow("SELECT done FROM store_steps WHERE user = ?", user).Scan(&done)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return ownwords.Errorf("store: migrate %s: %w", user, err)
		}
		if done > len(steps) {
			return ownwords.Errorf("store: migrate %s: %s was written by a newer version of this program (schema %d, this one knows %d): install that version, or use another state directory",
				user, db.path, done, len(steps))
		}
		for i, step := range steps[done:] {
			// Not through the statement cache: several statements, used once.
			if _, err := tx.conn.ExecContext(context.Background(), step); err != nil {
				return ownwords.Errorf("store: migrate %s: step %d: %w", user, done+i+1, mapSQLiteError(err))
			}
		}
		if _, err := tx.Exec("INSERT INTO store_steps (user, done) VALUES (?, ?) ON CONFLICT (user) DO UPDATE SET done = excluded.done", user, len(steps)); err != nil {
			return ownwords.Errorf("store: migrate %s: %w", user, err)
		}
		return nil
	})
}

// countDoneMigrations returns how many steps of a user this file has seen.
func (db *DB) countDoneMigrations(ctx context.Context, user string) (done int, err error) {
	err = db.Read(ctx, func(tx *Tx) error {
		var begun bool
		if err := tx.QueryRow("SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'store_steps'").Scan(&begun); err != nil || !begun {
			return err
		}
		err := tx.QueryRow("SELECT done FROM store_steps WHERE user = ?", user).Scan(&done)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, ownwords.Errorf("store: migrate %s: %w", user, err)
	}
	return done, nil
}
