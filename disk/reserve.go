package disk

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"sync"
)

const (
	reserveSize = 4 << 20 // the log of state.db grows to that at most
	reserveStep = 64 << 10
	scarce      = 1 << 20 // below this the reserve is needed
)

// Reserve is a file that holds space for what frees some. Its methods may be called
// from any goroutine.
type Reserve struct {
	path string
	look func(string) (Space, error)

	mu       sync.Mutex // guards what follows
	size     int64      // of the file
	spending int
}

// OpenReserve takes the file at path, and makes it as large as it should be where
// there is space for that.
func OpenReserve(path string, look func(string) (Space, error)) *Reserve {
	if look == nil {
		look = Look
	}
	r := &Reserve{path: path, look: look}
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		r.size = info.Size()
	}
	r.fill()
	return r
}

// Spend calls free, which frees space or takes it from somebody, with the reserve to
// write on where there is nothing else; afterwards it takes back what is left.
func (r *Reserve) Spend(free func()) {
	if r == nil { // the daemon could not be opened
		free()
		return
	}
	r.begin()
	defer r.end()
	free()
}

func (r *Reserve) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spending++
	if r.size == 0 {
		return
	}
	if left, err := r.look(filepath.Dir(r.path)); err == nil && left.Free < scarce {
		if err := os.Remove(r.path); err == nil || errors.Is(err, os.ErrNotExist) {
			r.size = 0
		}
	}
}

func (r *Reserve) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spending--; r.spending == 0 {
		r.fill()
	}
}

// fill makes the file as large as it should be, or as there is space for. Callers hold
// mu, or own r.
func (r *Reserve) fill() {
	if r.size >= reserveSize {
		return
	}
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	for to := int64(reserveSize); to > r.size && to >= reserveStep; to /= 2 {
		if err := allocate(f, r.size, to-r.size); err == nil {
			r.size = to
			return
		}
		f.Truncate(r.size)
	}
}

// write fills f with what no file system stores in less space.
func write(f *os.File, offset, size int64) error {
	b := make([]byte, size)
	rand.Read(b)
	_, err := f.WriteAt(b, offset)
	return errors.Join(err, f.Sync())
}
