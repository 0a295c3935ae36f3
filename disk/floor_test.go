package disk

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// holds: security.md#on-this-machine
func TestFloor(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct{ total, min, bound uint64 }{
		{100 * gib, 0, gib}, {20 * gib, 0, gib}, {10 * gib, 0, gib / 2}, {gib, 0, 128 * mib}, {64 * mib, 0, 128 * mib}, {100 * gib, 5 * gib, 5 * gib}, {100 * gib, mib, mib},
	} {
		for _, free := range []uint64{0, c.bound - 1, c.bound, 2 * c.bound} {
			f := NewFloor("/", c.min, func(string) (Space, error) { return Space{Free: free, Total: c.total}, nil })
			if low := f.IsLow(); low != (free < c.bound) {
				t.Errorf("%d of %d bytes are free, at least %d: low is %t", free, c.total, c.min, low)
			}
		}
	}
	if NewFloor("/", 0, func(string) (Space, error) { return Space{}, errors.New("no such file system") }).IsLow() {
		t.Error("what cannot be found out is low")
	}
}

// TestFloorOfFiles: a file system without inodes, or without writes, has no room either, however many bytes it has.
// holds: security.md#on-this-machine
func TestFloorOfFiles(t *testing.T) {
	for _, c := range []struct {
		left Space
		want Shortage
	}{
		{Space{}, NoShortage}, // none are counted, as on btrfs and vfat
		{Space{TotalFiles: 200, FreeFiles: 0}, OfFiles},
		{Space{TotalFiles: 200, FreeFiles: 9}, OfFiles},
		{Space{TotalFiles: 200, FreeFiles: 10}, NoShortage},
		{Space{TotalFiles: 1 << 30, FreeFiles: 999}, OfFiles},
		{Space{TotalFiles: 1 << 30, FreeFiles: 1000}, NoShortage},
		{Space{ReadOnly: true}, OfWrites},
	} {
		c.left.Free, c.left.Total = 1<<40, 1<<41
		f := NewFloor("/", 0, func(string) (Space, error) { return c.left, nil })
		if got, free, _ := f.Measure(); got != c.want || free != 1<<40 || f.IsLow() != (c.want != NoShortage) {
			t.Errorf("%+v: %d, want %d", c.left, got, c.want)
		}
	}
}

// TestFloorLooks: often enough, and not for each message.
func TestFloorLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, free := 0, uint64(0)
		f := NewFloor("/", 1, func(string) (Space, error) { looks++; return Space{Free: free}, nil })
		for range 1000 {
			f.IsLow()
		}
		if looks != 1 {
			t.Errorf("%d looks at once", looks)
		}
		free = 1
		time.Sleep(measureEvery)
		if f.IsLow() {
			t.Error("the space that has come is not noticed")
		}
	})
}

// TestReserve: what frees space has that of the file, and others have not.
// holds: security.md#on-this-machine
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
	freeing := func(free func()) {
		t.Helper()
		if err := r.RunWithReserve(func() error { free(); return nil }); err != nil {
			t.Error(err)
		}
	}
	freeing(func() { kept("where there is space", reserveSize) })
	left = scarceBytes - 1
	freeing(func() {
		kept("where there is none", 0)
		freeing(func() { kept("for a second", 0) })
		kept("while the first goes on", 0)
	})
	kept("afterwards", reserveSize)
	kept("in the next run", reserveSize)
	if again := OpenReserve(path, look); again.size.Load() != reserveSize {
		t.Errorf("the next run has %d bytes", again.size.Load())
	}
}

// TestReserveUnderAQuota: a quota shows only in what fails, and then the reserve is
// there for a second attempt. What fails otherwise is not repeated.
// holds: security.md#on-this-machine
func TestReserveUnderAQuota(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reserve")
	r := OpenReserve(path, func(string) (Space, error) { return Space{Free: 1 << 40}, nil })
	for _, no := range []error{unix.EDQUOT, unix.ENOSPC, unix.EFBIG} {
		calls := 0
		err := r.RunWithReserve(func() error {
			if calls++; calls == 1 {
				return fmt.Errorf("write: %w", no)
			}
			if size, _ := blocks(path); size != 0 {
				t.Errorf("%v: the reserve still takes %d bytes", no, size)
			}
			return nil
		})
		if calls != 2 || err != nil {
			t.Errorf("%v: %d attempts, and then %v", no, calls, err)
		}
		if size, err := blocks(path); size != reserveSize {
			t.Errorf("%v: afterwards the reserve takes %d bytes: %v", no, size, err)
		}
	}
	for _, e := range []error{nil, unix.EIO} {
		calls := 0
		if err := r.RunWithReserve(func() error { calls++; return e }); calls != 1 || err != e {
			t.Errorf("%v: %d attempts, and then %v", e, calls, err)
		}
	}
	calls := 0
	if err := r.RunWithReserve(func() error {
		return r.RunWithReserve(func() error { calls++; return unix.EDQUOT })
	}); calls != 3 || err != unix.EDQUOT { // both begin before the reserve is spent, and it is spent once
		t.Errorf("where the reserve does not suffice: %d attempts, and then %v", calls, err)
	}
}

// TestReserveForTwoAtOnce: of two that fail at once each has a second attempt, whoever
// has spent the reserve.
// holds: security.md#on-this-machine
func TestReserveForTwoAtOnce(t *testing.T) {
	r := OpenReserve(filepath.Join(t.TempDir(), "reserve"), func(string) (Space, error) { return Space{Free: 1 << 40}, nil })
	outer, inner := 0, 0
	err := r.RunWithReserve(func() error {
		if outer++; outer > 1 {
			return nil
		}
		err := r.RunWithReserve(func() error {
			if inner++; inner == 1 {
				return unix.EDQUOT
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return unix.EDQUOT
	})
	if err != nil || outer != 2 || inner != 2 {
		t.Errorf("%d and %d attempts, and then %v", outer, inner, err)
	}
}

// TestSlowDisk: a disk that does not answer holds up who asks it, and nobody else.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		var slow atomic.Bool
		look := func(string) (Space, error) {
			if slow.CompareAndSwap(true, false) {
				<-answer
			}
			return Space{Free: 1 << 40}, nil
		}
		f := NewFloor("/", 1<<41, look)
		r := OpenReserve(filepath.Join(t.TempDir(), "reserve"), look)
		if !f.IsLow() {
			t.Fatal("the space is not low")
		}
		time.Sleep(measureEvery)
		slow.Store(true)
		go f.IsLow()
		synctest.Wait()
		if !f.IsLow() {
			t.Error("while somebody looks the last answer does not count")
		}
		time.Sleep(measureEvery)
		if !f.IsLow() {
			t.Error("nor does it later")
		}
		answer <- struct{}{}
		synctest.Wait()

		slow.Store(true)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.RunWithReserve(func() error { return nil })
		}()
		synctest.Wait()
		r.RunWithReserve(func() error { return nil })
		close(answer)
		<-ended
	})
}

// blocks returns the bytes of the disk that a file takes.
func blocks(path string) (uint64, error) {
	var s unix.Stat_t
	err := unix.Stat(path, &s)
	return uint64(s.Blocks) * 512, err
}
