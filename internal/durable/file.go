// Package durable writes files that are whole whenever somebody sees them, and that
// outlast a loss of power.
//
// A file comes about in three steps. [Create] or [Rewrite] writes it under a temporary
// name, a rename or a hard link gives it its own name, and [SyncDir] makes that name last.
// [Replace] does all three.
//
// The package leaves to its callers what temporary names look like and who sweeps those
// that a crash has left: by its mark a program tells its own from another's.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// newFile are the flags that make a file, and never open one that is there or follow a symbolic link.
const newFile = os.O_WRONLY | os.O_CREATE | os.O_EXCL | syscall.O_NOFOLLOW

// Create writes data into a new file, which is on disk when Create returns. It returns
// [fs.ErrExist] if path is taken, and leaves no file behind if it fails, as on a full disk.
func Create(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, newFile, mode)
	if err != nil {
		return err
	}
	if err = fill(f, data); err != nil {
		os.Remove(path)
	}
	return err
}

// CreateIn is [Create] for a file in an open folder.
func CreateIn(dir *os.Root, name string, data []byte, mode fs.FileMode) error {
	f, err := dir.OpenFile(name, newFile, mode)
	if err != nil {
		return err
	}
	if err = fill(f, data); err != nil {
		dir.Remove(name)
	}
	return err
}

// Rewrite is [Create] in the place of what a crash has left at path. It suits a temporary
// name that one process at a time uses.
func Rewrite(path string, data []byte, mode fs.FileMode) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return Create(path, data, mode)
}

// Replace makes data the content of path, by way of the file temp in the same folder.
// Readers see the old file or the new one. If Replace fails, it leaves no temp behind.
func Replace(path, temp string, data []byte, mode fs.FileMode) error {
	if err := Rewrite(temp, data, mode); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// linkNew is [RenameNew] where the system cannot rename without replacing.
func linkNew(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}

// SyncDir makes the names in a folder last.
func SyncDir(path string) error {
	return syncClose(os.Open(path))
}

// SyncRoot makes the names in an open folder last.
func SyncRoot(dir *os.Root) error {
	return syncClose(dir.Open("."))
}

func syncClose(dir *os.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// fill writes and closes a new file.
func fill(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
