package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// RenameIfAbsent renames a file, never over another: then the error is [io/fs.ErrExist].
func RenameIfAbsent(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS): // the file system cannot
		return renameByLink(from, to)
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}
