// Package disk keeps an eye on the space that is left where the daemon writes: a
// [Floor] below which peers are refused, so that they never take the last of it, and
// a [Reserve], so that what frees space or cuts a peer off works when there is none.
package disk

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Space is what a file system has, in bytes. Free is what an ordinary user may take.
type Space struct{ Free, Total uint64 }

// Look asks the system for the space where path is.
func Look(path string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Space{}, err
	}
	block := uint64(s.Bsize) // of another type on each system
	return Space{Free: uint64(s.Bavail) * block, Total: uint64(s.Blocks) * block}, nil
}

// IsFull reports whether err says that a disk, a quota or a limit of this process has
// no room for a file to grow.
func IsFull(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}, func(no error) bool { return errors.Is(err, no) })
}

// Bounds of the floor where none is configured: on a large disk 1 GiB is enough for
// its owner to notice and to clear up, on a small one 5 % is; and the writes that are
// under way between two looks never take 128 MiB.
const (
	mostFloor  = 1 << 30
	leastFloor = 128 << 20
	floorPart  = 20 // 5 %
	lookEvery  = 100 * time.Millisecond
)

// Floor tells whether the space where a path is has become too little for peers. Its
// methods may be called from any goroutine, and often.
type Floor struct {
	path string
	min  uint64
	look func(string) (Space, error)

	mu      sync.Mutex // guards the rest
	at      time.Time  // of the last look
	looking bool       // somebody does
	low     bool
	free    uint64 // as the last look has seen it, and what it was held against
	bound   uint64
}

// NewFloor watches the file system of path. min is the space in bytes below which it
// is low, 0 for the lesser of 1 GiB and 5 % of all, at least 128 MiB. look is how the
// space is found out, nil for [Look].
func NewFloor(path string, min uint64, look func(string) (Space, error)) *Floor {
	if look == nil {
		look = Look
	}
	return &Floor{path: path, min: min, look: look}
}

// Low reports whether there is too little space. What cannot be found out is enough.
// Where a look takes time only one call waits for it; others are told what the last one
// has seen.
func (f *Floor) Low() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.looking || now.Sub(f.at) < lookEvery {
		return f.low
	}
	f.at, f.looking = now, true
	f.mu.Unlock()
	left, err := f.look(f.path)
	f.mu.Lock()
	f.looking = false
	f.low = false
	if err == nil {
		f.free, f.bound = left.Free, f.boundOf(left.Total)
		f.low = f.free < f.bound
	}
	return f.low
}

// Space returns what the last look has seen: the bytes that are free, and those below
// which it is too little. It blocks as Low does.
func (f *Floor) Space() (free, bound uint64) {
	f.Low()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.free, f.bound
}

// Seen returns what the last look has seen, and does not look. It never blocks.
func (f *Floor) Seen() (low bool, free, bound uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.low, f.free, f.bound
}

func (f *Floor) boundOf(total uint64) uint64 {
	if f.min > 0 {
		return f.min
	}
	return max(min(mostFloor, total/floorPart), leastFloor)
}
