package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
)

// backup is the copy of state.db that a backup reads. There is one at a time: it takes as much
// of the disk as state.db.
type backup struct {
	mu sync.Mutex
	of *local.Conn // for which the copy is made or kept; nil: for none
}

// serveBackup copies state.db into a file that lasts as long as the connection.
func (d *Daemon) serveBackup(ctx context.Context, s *local.Conn, _ *local.NoParams) (any, error) {
	d.backup.mu.Lock()
	if d.backup.of != nil {
		d.backup.mu.Unlock()
		return nil, kinds.Errorf(kinds.Overloaded, "backup: another one is under way: wait until it ends")
	}
	d.backup.of = s
	d.backup.mu.Unlock()
	path := d.home.filePath(statedir.CopyName)
	schema, err := d.copyState(ctx, path)
	if err != nil {
		d.releaseBackup(s)
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		d.releaseBackup(s)
		return nil, ownwords.Errorf("backup: %w", err)
	}
	return &client.StateCopy{Path: path, Bytes: uint64(info.Size()), Schema: schema, Program: d.options.Version}, nil
}

// copyState copies state.db to path and returns the version of its tables. Then it writes the
// files of trust and of waking: what they have is as new as the copy, or newer. So a peer that is
// untrusted meanwhile stays so in what is restored.
func (d *Daemon) copyState(ctx context.Context, path string) (schema int, err error) {
	if err := removeIfThere(path); err != nil {
		return 0, ownwords.Errorf("backup: %w", err)
	}
	if err := d.checkRoomForCopy("backup"); err != nil {
		return 0, err
	}
	if err := d.store.Copy(ctx, path, func() error { return d.checkRoomBesideCopy("backup") }); err != nil {
		return 0, err
	}
	if schema, err = d.store.ReadVersion(ctx); err != nil {
		return 0, err
	}
	return schema, errors.Join(d.trust.Save(), d.waker.Rules.Save())
}

// checkRoomForCopy returns an error if a copy of state.db would take the disk below the floor.
// op is what the copy is for.
func (d *Daemon) checkRoomForCopy(op string) error {
	size := uint64(0)
	for _, name := range []string{statedir.StateName, statedir.StateLogName} {
		if info, err := os.Stat(d.home.filePath(name)); err == nil {
			size += uint64(info.Size())
		}
	}
	if short, free, bound := d.space.state.Measure(); short == disk.OfBytes || free > 0 && free < bound+size { // 0 and not short: the system does not say
		return kinds.Errorf(kinds.Overloaded, "%s: the disk of %s has %s free, and a copy of state.db needs %s beyond the %s that stay free (limits.min_free): free some space; a backup while acpd is stopped needs no copy",
			op, d.home, formatMiB(free), formatMiB(size+1<<20-1), formatMiB(bound))
	}
	return nil
}

func (d *Daemon) checkRoomBesideCopy(op string) error {
	if !d.space.state.IsLow() {
		return nil
	}
	return kinds.Errorf(kinds.Overloaded, "%s: the disk of %s has become almost full meanwhile: free some space, then repeat this", op, d.home)
}

// releaseBackup removes the copy that was made for a connection, if there is one. The connection
// has ended, or the copy failed.
func (d *Daemon) releaseBackup(s *local.Conn) {
	d.backup.mu.Lock()
	defer d.backup.mu.Unlock()
	if d.backup.of != s {
		return
	}
	if err := removeIfThere(d.home.filePath(statedir.CopyName)); err != nil {
		d.log.Warn("the copy of a backup stays until the next one", "err", err)
	}
	d.backup.of = nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
