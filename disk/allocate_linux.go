package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocateBlocks gives f blocks of its own from offset on.
func allocateBlocks(f *os.File, offset, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, offset, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return writeRandomBytes(f, offset, size)
	}
	return err
}
