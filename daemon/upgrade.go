package daemon

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/store"
)

// NewerStateError says that a newer acpd has written state.db.
type NewerStateError struct {
	Path           string
	Writer, Reader string // versions of acpd; Writer is "" if the file does not say
	Has, Knows     int    // versions of the tables
	IsCopied       bool   // the file as it was before the upgrade lies beside it
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

// prepareUpgrade refuses a state.db that a newer acpd has written. Before an older one is
// upgraded, it keeps a copy, if there is room for one above the floor of the disk. It also removes
// what a crash has left of a copy or of a restore that had not begun.
//
// The mark in the file is the version to which it was upgraded last, and is written before the
// upgrade: so one that a crash has interrupted goes on, and does not replace the copy.
func (d *Daemon) prepareUpgrade(ctx context.Context) error {
	for _, left := range []string{statedir.OldStateTemp, statedir.CopyName, statedir.StagingName} {
		if err := os.RemoveAll(d.home.filePath(left)); err != nil {
			return ownwords.Errorf("state directory: %w", err)
		}
	}
	version, err := d.store.ReadVersion(ctx)
	if err != nil {
		return err
	}
	mark, err := d.store.ReadMark(ctx)
	if err != nil {
		return err
	}
	newest := max(version, mark)
	switch {
	case newest > statedir.StateVersion:
		by, err := store.ReadValue(ctx, d.store, readWriter)
		if err != nil {
			return err
		}
		_, missing := os.Lstat(d.home.filePath(statedir.OldStateName))
		return &NewerStateError{d.home.filePath(statedir.StateName), by.program, d.options.Version, newest, statedir.StateVersion, missing == nil}
	case mark == statedir.StateVersion, version == statedir.StateVersion && d.space.IsLow():
		return nil
	case 0 < version && version < statedir.StateVersion:
		if err := d.keepOldState(ctx); err != nil {
			return err
		}
	}
	return d.store.WriteMark(ctx, statedir.StateVersion)
}

// keepOldState copies state.db as it is before an upgrade. If that fails, the upgrade goes on
// without, and the log says why.
func (d *Daemon) keepOldState(ctx context.Context) error {
	temp, old := d.home.filePath(statedir.OldStateTemp), d.home.filePath(statedir.OldStateName)
	err := d.space.CheckRoomForCopy("upgrade")
	if err == nil {
		err = d.store.Copy(ctx, temp, func() error { return d.space.CheckRoomBesideCopy("upgrade") })
	}
	if err == nil {
		err = os.Rename(temp, old)
	}
	if err == nil {
		err = durable.SyncDir(string(d.home))
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		d.log.Warn("state.db is upgraded, and no copy is kept of what it was", "err", err)
	default:
		d.log.Info("state.db is upgraded; the file as it was is kept until the next upgrade", "copy", old)
	}
	return nil
}

// recordWriter writes into state.db which acpd has made its tables what they are, unless it says
// so of this version of the tables.
func (d *Daemon) recordWriter(ctx context.Context) error {
	version, err := d.store.ReadVersion(ctx)
	if err != nil {
		return err
	}
	was, err := store.ReadValue(ctx, d.store, readWriter)
	if err != nil || was.tables == version || d.space.IsLow() {
		return err
	}
	return d.store.Write(ctx, false, func(tx *store.Tx) error { return writeWriter(tx, writer{d.options.Version, version}) })
}
