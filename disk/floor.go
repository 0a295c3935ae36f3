// Package disk guards the space of the file systems on which the daemon writes: a
// [Floor] below which peers are refused, so that they never take the last of it, and
// a [Reserve], so that freeing space and cutting a peer off work on a full disk.
package disk

import (
	"sync"
	"time"
)

// Bounds of the floor if no floor is configured: on a large disk 1 GiB is enough for
// its owner to notice and to clear up, on a small one 5 % is; and the writes that are
// under way between two measurements never take 128 MiB.
const (
	mostFloor    = 1 << 30
	leastFloor   = 128 << 20
	mostFiles    = 1000 // of inodes the floor is that, or 5 %
	floorPart    = 20   // 5 %
	measureEvery = 100 * time.Millisecond
)

// Shortage is what a file system has too little of for peers.
type Shortage int

// The shortages.
const (
	NoShortage Shortage = iota
	OfBytes
	OfFiles  // inodes
	OfWrites // all: it is read-only
)

// Floor watches whether a file system has too little space for peers. Its methods may be
// called from any goroutine, and often.
type Floor struct {
	path    string
	min     uint64
	measure func(string) (Space, error)

	mu        sync.Mutex // guards the rest
	at        time.Time  // of the last measurement
	measuring bool       // one is under way
	short     Shortage
	free      uint64 // bytes, at the last measurement
	bound     uint64 // bytes that had to be free then
}

// NewFloor watches the file system of path. min is the space in bytes below which it
// is low, 0 for the lesser of 1 GiB and 5 % of all, at least 128 MiB. measure returns the
// space, nil for [MeasureSpace].
func NewFloor(path string, min uint64, measure func(string) (Space, error)) *Floor {
	if measure == nil {
		measure = MeasureSpace
	}
	return &Floor{path: path, min: min, measure: measure}
}

// IsLow reports whether there is too little space. It blocks as Measure does.
func (f *Floor) IsLow() bool {
	short, _, _ := f.Measure()
	return short != NoShortage
}

// Measure measures the space, unless that was done within the last 100 ms or another call
// does it. It returns what the last measurement has found: what there is too little of, the
// bytes that are free, and those below which it is too little. If the system does not say,
// there is enough. It blocks as long as the system needs.
func (f *Floor) Measure() (short Shortage, free, bound uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); !f.measuring && now.Sub(f.at) >= measureEvery {
		f.at, f.measuring = now, true
		f.mu.Unlock()
		left, err := f.measure(f.path)
		f.mu.Lock()
		f.measuring, f.short = false, NoShortage
		if err == nil {
			f.free, f.bound = left.Free, f.leastFreeOf(left.Total)
			f.short = f.findShortage(left)
		}
	}
	return f.short, f.free, f.bound
}

func (f *Floor) findShortage(left Space) Shortage {
	switch {
	case left.ReadOnly:
		return OfWrites
	case left.Free < f.leastFreeOf(left.Total):
		return OfBytes
	case left.FreeFiles < min(mostFiles, left.TotalFiles/floorPart):
		return OfFiles
	}
	return NoShortage
}

// LastMeasured returns what Measure has found last. It never blocks for the system.
func (f *Floor) LastMeasured() (short Shortage, free, bound uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.short, f.free, f.bound
}

func (f *Floor) leastFreeOf(total uint64) uint64 {
	if f.min > 0 {
		return f.min
	}
	return max(min(mostFloor, total/floorPart), leastFloor)
}
