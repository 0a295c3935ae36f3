package disk

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Space is what a file system has.
type Space struct {
	Free, Total           uint64 // bytes; Free is what an ordinary user may take
	FreeFiles, TotalFiles uint64 // inodes; TotalFiles is 0 if the file system does not limit them
	ReadOnly              bool
}

// isReadOnly is the flag of statfs(2) for a file system without writes, on Linux and macOS.
const isReadOnly = 1

// MeasureSpace returns the space of the file system that holds path.
func MeasureSpace(path string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Space{}, err
	}
	block := uint64(s.Bsize) // of another type on each system
	return Space{
		Free: uint64(s.Bavail) * block, Total: uint64(s.Blocks) * block,
		FreeFiles: s.Ffree, TotalFiles: s.Files, ReadOnly: s.Flags&isReadOnly != 0,
	}, nil
}

// IsFullError reports whether err means that a disk, a quota or a limit of this process has
// no room for a file to grow.
func IsFullError(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}, func(no error) bool { return errors.Is(err, no) })
}
