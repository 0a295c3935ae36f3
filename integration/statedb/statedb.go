// Package statedb opens state.db for tests, and reads and changes it behind the back of those that own its
// tables.
package statedb

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/acpd/acpd/store"
)

// New opens a database in a directory of its own, with what migrate does to it.
func New(t testing.TB, migrate ...func(context.Context, *store.DB) error) *store.DB {
	t.Helper()
	return Open(t, filepath.Join(t.TempDir(), "state.db"), migrate...)
}

// Open opens the database in a file, with what migrate does to it. It is closed at the end of the
// test at the latest.
func Open(t testing.TB, path string, migrate ...func(context.Context, *store.DB) error) *store.DB {
	t.Helper()
	db, err := store.OpenDB(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, f := range migrate {
		if err := f(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// Exec executes a statement in a transaction of its own.
func Exec(t testing.TB, db *store.DB, statement string, args ...any) {
	t.Helper()
	if err := db.Write(t.Context(), false, func(tx *store.Tx) error {
		_, err := tx.Exec(statement, args...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// Query reads the one value of the one row that a query has.
func Query(t testing.TB, db *store.DB, into any, query string, args ...any) {
	t.Helper()
	if err := db.Read(t.Context(), func(tx *store.Tx) error { return tx.QueryRow(query, args...).Scan(into) }); err != nil {
		t.Fatal(err)
	}
}
