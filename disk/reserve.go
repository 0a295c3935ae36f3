package disk

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

const (
	reserveSize = 4 << 20 // the log of state.db grows to that at most
	reserveStep = 64 << 10
	scarceBytes = 1 << 20 // below this the reserve is needed
)

// Reserve is a file that keeps space for what frees some. Its methods may be called from any
// goroutine.
type Reserve struct {
	path     string
	measure  func(string) (Space, error)
	spending atomic.Int64 // calls of RunWithReserve that are under way
	size     atomic.Int64 // of the file; changed under file
	releases atomic.Int64 // how often the file was removed

	// file is held while the file is changed. Only calls that need the file wait for it.
	file sync.Mutex
}

// OpenReserve takes the file at path, and makes it as large as it should be if there is
// space for that. measure returns the space, nil for [MeasureSpace].
func OpenReserve(path string, measure func(string) (Space, error)) *Reserve {
	if measure == nil {
		measure = MeasureSpace
	}
	r := &Reserve{path: path, measure: measure}
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		r.size.Store(info.Size())
	}
	r.growFile()
	return r
}

// RunWithReserve calls free, which frees space or cuts a peer off, and returns its error. If
// the disk has no space left, RunWithReserve removes the file first, so that free can write; in
// the end it makes the file anew in the space that is left. If free fails for want of
// space that could not be foreseen, as under a quota, it is called once more: it must have
// done nothing then.
//
// While free runs, others can take the space of the file, so free may wait for nothing but
// this disk.
func (r *Reserve) RunWithReserve(free func() error) error {
	if r == nil { // the daemon could not be opened
		return free()
	}
	r.spending.Add(1)
	defer r.restoreAfterRun()
	if left, err := r.measure(filepath.Dir(r.path)); err == nil && left.Free < scarceBytes {
		r.removeFile()
	}
	before := r.releases.Load()
	err := free()
	if IsFullError(err) && (r.removeFile() || r.releases.Load() != before) { // by this call, or by another since it began
		err = free()
	}
	return err
}

// removeFile removes the file, and reports whether there was one.
func (r *Reserve) removeFile() bool {
	if r.size.Load() == 0 {
		return false
	}
	r.file.Lock()
	defer r.file.Unlock()
	if r.size.Load() == 0 { // another call has been here, and there is its space
		return true
	}
	if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false
	}
	r.size.Store(0)
	r.releases.Add(1)
	return true
}

func (r *Reserve) restoreAfterRun() {
	if r.spending.Add(-1) > 0 || r.size.Load() >= reserveSize {
		return
	}
	r.growFile()
}

// growFile makes the file as large as it should be, or as there is space for.
func (r *Reserve) growFile() {
	if !r.file.TryLock() {
		return // another call is at it
	}
	defer r.file.Unlock()
	size := r.size.Load()
	if size >= reserveSize {
		return
	}
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	for to := int64(reserveSize); to > size && to >= reserveStep; to /= 2 {
		if err := allocateBlocks(f, size, to-size); err == nil {
			r.size.Store(to)
			return
		}
		f.Truncate(size)
	}
}

// writeRandomBytes fills a part of f with random bytes, which no file system stores in less
// space.
func writeRandomBytes(f *os.File, offset, size int64) error {
	b := make([]byte, size)
	rand.Read(b)
	_, err := f.WriteAt(b, offset)
	return errors.Join(err, f.Sync())
}
