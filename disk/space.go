package disk

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Space holds sizes of a file system, in bytes. Free is what an ordinary user may take.
type Space struct{ Free, Total uint64 }

// MeasureSpace returns the space of the file system that holds path.
func MeasureSpace(path string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Space{}, err
	}
	block := uint64(s.Bsize) // of another type on each system
	return Space{Free: uint64(s.Bavail) * block, Total: uint64(s.Blocks) * block}, nil
}

// IsFullError reports whether err says that a disk, a quota or a limit of this process has
// no room for a file to grow.
func IsFullError(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}, func(no error) bool { return errors.Is(err, no) })
}
