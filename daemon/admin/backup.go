package admin

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
)

// Backup makes the copy of state.db that a backup reads. There is one at a time: it takes as much
// of the disk as state.db.
type Backup struct {
	Store     *store.DB
	Space     *Space
	Version   string       // of this program
	SaveFiles func() error // writes the files that belong to state.db
	Log       *slog.Logger

	mu       sync.Mutex    // guards what follows
	of       *local.Conn   // the connection for which the copy is made or kept, or nil
	released chan struct{} // closed when of has ended
}

// releasePatience is how long a backup waits for the end of the one before. The daemon may hear a moment later than
// its user that the connection of that one has ended.
const releasePatience = time.Second

// Methods returns the method that makes a copy.
func (b *Backup) Methods() map[string]local.Method {
	return map[string]local.Method{client.MethodBackup: local.ForOwner(b.serveBackup)}
}

// serveBackup copies state.db into a file that lasts as long as the connection.
func (b *Backup) serveBackup(ctx context.Context, s *local.Conn, _ *local.NoParams) (any, error) {
	if err := b.begin(ctx, s); err != nil {
		return nil, err
	}
	path := b.copyPath()
	schema, err := b.copyState(ctx, path)
	if err != nil {
		b.Release(s)
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Release(s)
		return nil, ownwords.Errorf("backup: %w", err)
	}
	return &client.StateCopy{Path: path, Bytes: uint64(info.Size()), Schema: schema, Program: b.Version}, nil
}

// begin reserves the copy for a connection, until the caller or the end of the connection calls Release. It returns an
// error if another one has the copy for longer than releasePatience.
func (b *Backup) begin(ctx context.Context, s *local.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, releasePatience)
	defer cancel()
	for {
		b.mu.Lock()
		released := b.released
		if b.of == nil {
			b.of, b.released = s, make(chan struct{})
			b.mu.Unlock()
			return nil
		}
		b.mu.Unlock()
		select {
		case <-released:
		case <-ctx.Done():
			return kinds.Errorf(kinds.Overloaded, "backup: another one is under way: wait until it ends")
		}
	}
}

func (b *Backup) copyPath() string { return filepath.Join(b.Space.Home, statedir.CopyName) }

// copyState copies state.db to path and returns the version of its tables. Then it writes the
// files that belong to it: what they have is as new as the copy, or newer. So a peer that is
// untrusted meanwhile stays so in what is restored.
func (b *Backup) copyState(ctx context.Context, path string) (schema int, err error) {
	if err := removeIfThere(path); err != nil {
		return 0, ownwords.Errorf("backup: %w", err)
	}
	if err := b.Space.CheckRoomForCopy("backup"); err != nil {
		return 0, err
	}
	if err := b.Store.Copy(ctx, path, func() error { return b.Space.CheckRoomBesideCopy("backup") }); err != nil {
		return 0, err
	}
	if schema, err = b.Store.ReadVersion(ctx); err != nil {
		return 0, err
	}
	return schema, b.SaveFiles()
}

// Release removes the copy that was made for a connection, if there is one. The connection
// has ended, or the copy failed.
func (b *Backup) Release(s *local.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of != s {
		return
	}
	if err := removeIfThere(b.copyPath()); err != nil {
		b.Log.Warn("the copy of a backup stays until the next one", "err", err)
	}
	b.of = nil
	close(b.released)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
