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
	scarce      = 1 << 20 // below this the reserve is needed
)

// Reserve is a file that holds space for what frees some. Its methods may be called
// from any goroutine.
type Reserve struct {
	path     string
	look     func(string) (Space, error)
	spending atomic.Int64 // calls of Spend that are under way
	size     atomic.Int64 // of the file; changed under file
	releases atomic.Int64 // how often the file was removed

	// file orders what is done to the file, and is held over that: only who needs the
	// file waits for it.
	file sync.Mutex
}

// OpenReserve takes the file at path, and makes it as large as it should be where
// there is space for that.
func OpenReserve(path string, look func(string) (Space, error)) *Reserve {
	if look == nil {
		look = Look
	}
	r := &Reserve{path: path, look: look}
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		r.size.Store(info.Size())
	}
	r.fill()
	return r
}

// Spend calls free, which frees space or takes it from somebody, with the reserve to
// write on where there is nothing else; afterwards it takes back what is left. Where
// free fails for want of space that could not be foreseen, as under a quota, it is
// called once more: it must have done nothing then. Spend returns what free returned.
//
// While free runs others can take what the reserve was, so free waits for this disk
// alone.
func (r *Reserve) Spend(free func() error) error {
	if r == nil { // the daemon could not be opened
		return free()
	}
	r.spending.Add(1)
	defer r.end()
	if left, err := r.look(filepath.Dir(r.path)); err == nil && left.Free < scarce {
		r.release()
	}
	before := r.releases.Load()
	err := free()
	if IsFull(err) && (r.release() || r.releases.Load() != before) { // by this call, or by another since it began
		err = free()
	}
	return err
}

// release removes the file, and reports whether there was one.
func (r *Reserve) release() bool {
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

func (r *Reserve) end() {
	if r.spending.Add(-1) > 0 || r.size.Load() >= reserveSize {
		return
	}
	r.fill()
}

// fill makes the file as large as it should be, or as there is space for.
func (r *Reserve) fill() {
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
		if err := allocate(f, size, to-size); err == nil {
			r.size.Store(to)
			return
		}
		f.Truncate(size)
	}
}

// write fills f with what no file system stores in less space.
func write(f *os.File, offset, size int64) error {
	b := make([]byte, size)
	rand.Read(b)
	_, err := f.WriteAt(b, offset)
	return errors.Join(err, f.Sync())
}
