package files

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/store"
)

const sweepPause = 10 * time.Minute

// Run reports what the last run of the daemon could not, and removes files when their time is over, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	for {
		if err := s.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.Log.Warn("files", "err", err)
		}
		if pace.Sleep(ctx, sweepPause) != nil {
			return nil
		}
	}
}

// sweep removes files whose time is over, and then reports those that have come, which a crash or a full inbox has kept
// from being reported. After an error it leaves the other files of that peer for the next time.
func (s *Service) sweep(ctx context.Context, now time.Time) error {
	due, err := s.readRecords(ctx, "NOT whole OR NOT reported OR until < ? ORDER BY until", store.Millis(now))
	if err != nil {
		return ownwords.Errorf("look for files that are due: %w", err)
	}
	failed := make(map[identity.ID]bool)
	for _, r := range due {
		if failed[r.peer] || !r.whole && !s.findEnd(r).Before(now) {
			continue
		}
		if err := s.sweepOne(ctx, r.key(), now); err != nil && ctx.Err() == nil {
			failed[r.peer] = true
			s.PeerLog.WriteLimited(r.peer, slog.LevelWarn, "file not reported, or not removed: tried again in ten minutes", "id", r.ID, "peer", r.peer.Label(), "err", err)
		}
	}
	return nil
}

func (s *Service) sweepOne(ctx context.Context, k key, now time.Time) error {
	a, end := s.begin(ctx, k, nil)
	if a == nil { // it is coming
		return nil
	}
	defer end()
	r, err := s.readRecord(ctx, k)
	if err != nil || r == nil {
		return err
	}
	if s.findEnd(r).Before(now) {
		return s.drop(ctx, r)
	}
	sender, trusted := s.Trust.FindPeer(r.peer)
	if !r.whole || r.reported || !trusted {
		return nil
	}
	_, err = s.report(a.ctx, sender, r)
	return err
}

// findEnd returns when a file is removed.
func (s *Service) findEnd(r *record) time.Time {
	if r.whole {
		return r.until
	}
	last := r.since
	if info, err := os.Stat(s.path(r.key()) + mapSuffix); err == nil { // which no offer changes, but a range that comes
		last = info.ModTime()
	}
	return last.Add(unfinishedFor)
}

// reconcile makes the records and the files on disk agree, as the daemon starts: a file without a record goes, and a
// record without its file.
func (s *Service) reconcile(ctx context.Context) error {
	records, err := s.readRecords(ctx, "TRUE")
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(records))
	for _, r := range records {
		path := s.path(r.key())
		name := path
		if !r.whole {
			name += partSuffix
			os.Rename(path, name) // if it was renamed, and the store does not know
		}
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			if _, err := s.deleteRecord(ctx, r.key()); err != nil {
				return err
			}
			if r.whole {
				s.Log.Warn("a file that had come is not on the disk any more: its record is removed", "peer", r.peer.Label(), "id", r.ID)
			}
			continue
		}
		known[path] = true
		s.files.AddUnchecked(r.peer, 1)
		s.bytes.AddUnchecked(r.peer, int64(r.Size))
	}
	names, err := fs.Glob(os.DirFS(s.dir), "*/*")
	for _, name := range names {
		path := filepath.Join(s.dir, name)
		if !known[strings.TrimSuffix(strings.TrimSuffix(path, partSuffix), mapSuffix)] {
			os.Remove(path)
		}
	}
	return err
}
