package disk

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestFloor(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct{ total, min, bound uint64 }{
		{100 * gib, 0, gib}, {20 * gib, 0, gib}, {10 * gib, 0, gib / 2}, {gib, 0, 128 * mib}, {64 * mib, 0, 128 * mib}, {100 * gib, 5 * gib, 5 * gib}, {100 * gib, mib, mib},
	} {
		for _, free := range []uint64{0, c.bound - 1, c.bound, 2 * c.bound} {
			f := NewFloor("/", c.min, func(string) (Space, error) { return Space{free, c.total}, nil })
			if low := f.Low(); low != (free < c.bound) {
				t.Errorf("%d of %d bytes are free, at least %d: low is %t", free, c.total, c.min, low)
			}
		}
	}
	if NewFloor("/", 0, func(string) (Space, error) { return Space{}, errors.New("no such file system") }).Low() {
		t.Error("what cannot be found out is low")
	}
}

// TestFloorLooks: often enough, and not for each message.
func TestFloorLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, free := 0, uint64(0)
		f := NewFloor("/", 1, func(string) (Space, error) { looks++; return Space{Free: free}, nil })
		for range 1000 {
			f.Low()
		}
		if looks != 1 {
			t.Errorf("%d looks at once", looks)
		}
		free = 1
		time.Sleep(lookEvery)
		if f.Low() {
			t.Error("the space that has come is not noticed")
		}
	})
}

// TestReserve: what frees space has that of the file, and others have not.
func TestReserve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reserve")
	left := uint64(1 << 40)
	look := func(string) (Space, error) { return Space{Free: left}, nil }
	r := OpenReserve(path, look)
	kept := func(where string, want uint64) {
		t.Helper()
		if size, err := blocks(path); err != nil && want > 0 || size != want {
			t.Errorf("%s the reserve takes %d bytes, want %d: %v", where, size, want, err)
		}
	}
	kept("at first", reserveSize)
	r.Spend(func() { kept("where there is space", reserveSize) })
	left = scarce - 1
	r.Spend(func() {
		kept("where there is none", 0)
		r.Spend(func() { kept("for a second", 0) })
		kept("while the first goes on", 0)
	})
	kept("afterwards", reserveSize)
	kept("in the next run", reserveSize)
	if again := OpenReserve(path, look); again.size != reserveSize {
		t.Errorf("the next run has %d bytes", again.size)
	}
}

// blocks is how much of the disk a file takes.
func blocks(path string) (uint64, error) {
	var s unix.Stat_t
	err := unix.Stat(path, &s)
	return uint64(s.Blocks) * 512, err
}
