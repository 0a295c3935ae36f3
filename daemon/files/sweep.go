package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/wire"
)

const sweepPause = 10 * time.Minute

// Run reports what the last run of the daemon could not, and removes files when their time is over, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepPause)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := s.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.Log.Warn("files", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// sweep reports files that have come, which a crash or a full inbox has kept from being reported, and removes those
// whose time is over.
func (s *Service) sweep(ctx context.Context, now time.Time) error {
	due, err := s.readRecords(ctx, 0, func(r *record) bool { return r.until.Before(now) || r.whole && !r.reported }, nil)
	if err != nil {
		return ownwords.Errorf("look for files that are due: %w", err)
	}
	var errs []error
	for _, r := range due {
		errs = append(errs, s.sweepOne(ctx, r.key, now))
	}
	return errors.Join(errs...)
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
	if r.until.Before(now) {
		return s.drop(ctx, r)
	}
	sender, trusted := s.Trust.FindPeer(k.peer)
	if !r.whole || r.reported || !trusted {
		return nil
	}
	_, err = s.report(ctx, sender, r)
	return err
}

// reconcile makes the records and the files on disk agree, as the daemon starts: a file without a record goes, and a
// record without its file.
func (s *Service) reconcile(ctx context.Context) error {
	records, err := s.readRecords(ctx, 0, func(*record) bool { return true }, nil)
	if err != nil {
		return err
	}
	known := make(map[key]bool, len(records))
	for _, r := range records {
		path := s.path(r.key)
		if !r.whole && os.Rename(path, path+partSuffix) == nil { // it was renamed, and the store does not know
			s.Log.Debug("a file had come whole when the daemon ended", "id", r.id)
		}
		name := path
		if !r.whole {
			name += partSuffix
		}
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			if err := s.deleteRecord(ctx, r.key); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		known[r.key] = true
		s.files.AddUnchecked(r.peer, 1)
		s.bytes.AddUnchecked(r.peer, int64(r.size))
		if last := info.ModTime().Add(unfinishedFor); !r.whole && last.After(r.until) {
			r.until = last
			if err := s.updateRecord(ctx, false, r); err != nil {
				return err
			}
		}
	}
	return s.removeUnknown(known)
}

// removeUnknown removes the files without a record.
func (s *Service) removeUnknown(known map[key]bool) error {
	folders, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range folders {
		peer, err := identity.ParseID(dir.Name())
		if err != nil {
			continue // not of this service
		}
		files, err := os.ReadDir(filepath.Join(s.dir, dir.Name()))
		if err != nil {
			return err
		}
		for _, f := range files {
			name := strings.TrimSuffix(strings.TrimSuffix(f.Name(), partSuffix), mapSuffix)
			if id, err := wire.ParseMessageID(name); err == nil && !known[key{peer, id}] {
				removeBytes(s.path(key{peer, id}))
			}
		}
		os.Remove(filepath.Join(s.dir, dir.Name())) // unless it has files
	}
	return nil
}

// removeBytes removes what is on disk of a file.
func removeBytes(path string) {
	for _, suffix := range []string{"", partSuffix, mapSuffix} {
		os.Remove(path + suffix)
	}
}
