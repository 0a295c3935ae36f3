package admin

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/store"
)

// NewerStateError is returned if a newer acpd has written state.db.
type NewerStateError struct {
	Path           string
	Writer, Reader string // versions of acpd; Writer is "" if the file does not say
	Has, Knows     int    // versions of the tables
	IsCopied       bool   // the file as it was before the upgrade is in the same folder
}

func (e *NewerStateError) Error() string {
	text := fmt.Sprintf("state directory: acpd %s has written %s (version %d of its tables), and this is acpd %s (version %d): start acpd %s or a later one, or restore the backup from before the upgrade (acpctl restore)",
		cmp.Or(e.Writer, "of a later version"), e.Path, e.Has, e.Reader, e.Knows, cmp.Or(e.Writer, "of that version"))
	if e.IsCopied {
		text += "; " + statedir.OldStateName + " in the same folder is the file as it was before: docs/operate.md says how to go back to it"
	}
	return text
}

// OwnWords returns the text.
func (e *NewerStateError) OwnWords() string { return e.Error() }

// Upgrade upgrades the state.db of an older acpd.
type Upgrade struct {
	Store   *store.DB
	Space   *Space
	Version string // of this program
	Log     *slog.Logger
}

func (u *Upgrade) filePath(name string) string { return filepath.Join(u.Space.Home, name) }

// Prepare refuses a state.db that a newer acpd has written. Before an older one is
// upgraded, it keeps a copy, if there is room for one above the floor of the disk. It also removes
// what a crash has left of a copy or of a restore that had not begun.
//
// The mark in the file is the version to which it was upgraded last. It is written before the upgrade, so
// that an upgrade which a crash has interrupted continues after it, and does not replace the copy.
func (u *Upgrade) Prepare(ctx context.Context) error {
	for _, left := range []string{statedir.OldStateTemp, statedir.CopyName, statedir.StagingName} {
		if err := os.RemoveAll(u.filePath(left)); err != nil {
			return ownwords.Errorf("state directory: %w", err)
		}
	}
	version, err := u.Store.ReadVersion(ctx)
	if err != nil {
		return err
	}
	mark, err := u.Store.ReadMark(ctx)
	if err != nil {
		return err
	}
	newest := max(version, mark)
	switch {
	case newest > statedir.StateVersion:
		by, err := store.ReadValue(ctx, u.Store, readWriter)
		if err != nil {
			return err
		}
		_, missing := os.Lstat(u.filePath(statedir.OldStateName))
		return &NewerStateError{u.filePath(statedir.StateName), by.program, u.Version, newest, statedir.StateVersion, missing == nil}
	case mark == statedir.StateVersion, version == statedir.StateVersion && u.Space.IsLow():
		return nil
	case 0 < version && version < statedir.StateVersion:
		if err := u.keepOldState(ctx); err != nil {
			return err
		}
	}
	return u.Store.WriteMark(ctx, statedir.StateVersion)
}

// keepOldState copies state.db as it is before an upgrade. If that fails, the upgrade continues without a
// copy, and the log says why.
func (u *Upgrade) keepOldState(ctx context.Context) error {
	temp, old := u.filePath(statedir.OldStateTemp), u.filePath(statedir.OldStateName)
	err := u.Space.CheckRoomForCopy("upgrade")
	if err == nil {
		err = u.Store.Copy(ctx, temp, func() error { return u.Space.CheckRoomBesideCopy("upgrade") })
	}
	if err == nil {
		err = os.Rename(temp, old)
	}
	if err == nil {
		err = durable.SyncDir(u.Space.Home)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		u.Log.Warn("state.db is upgraded, and no copy is kept of what it was", "err", err)
	default:
		u.Log.Info("state.db is upgraded; the file as it was is kept until the next upgrade", "copy", old)
	}
	return nil
}

// RecordWriter writes into state.db which acpd upgraded its tables, unless that is recorded for this version
// of the tables.
func (u *Upgrade) RecordWriter(ctx context.Context) error {
	version, err := u.Store.ReadVersion(ctx)
	if err != nil {
		return err
	}
	was, err := store.ReadValue(ctx, u.Store, readWriter)
	if err != nil || was.tables == version || u.Space.IsLow() {
		return err
	}
	return u.Store.Write(ctx, false, func(tx *store.Tx) error { return writeWriter(tx, writer{u.Version, version}) })
}

// writer is the acpd that upgraded the tables last.
type writer struct {
	program string // its version; "" if the file does not say
	tables  int    // their version
}

func readWriter(tx *store.Tx) (w writer, err error) {
	err = tx.QueryRow("SELECT p.value, t.value FROM daemon_setting p JOIN daemon_setting t ON t.name = 'tables' WHERE p.name = 'writer'").Scan(&w.program, &w.tables)
	if errors.Is(err, sql.ErrNoRows) {
		return writer{}, nil
	}
	return w, err
}

func writeWriter(tx *store.Tx, w writer) error {
	const set = "INSERT INTO daemon_setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
	if _, err := tx.Exec(set, "writer", w.program); err != nil {
		return err
	}
	_, err := tx.Exec(set, "tables", strconv.Itoa(w.tables))
	return err
}
